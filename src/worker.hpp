// The process in which cells run: answers requests, one JSON value a line, until its channel
// closes.
#pragma once

namespace mla_bench {

// Requests {"do": "devices" | "setup" | "calibrate" | "open" | "measure" | "close" | "anchors" |
// "witness" | "profile", ...}, as Session has them; each is answered by {"ok": ...}
// or
// {"error": "one line", "kind": "usage" | "failed"}. After a "failed" the process ends, since a
// device error may have broken its context: the caller starts another. Returns the process's exit
// code.
int serve(int channel);

}  // namespace mla_bench
