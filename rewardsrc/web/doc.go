// Package web is a label source for the browser of a phone or a laptop: large
// buttons, the open question, a live view of the robot, and STOP.
//
// # Use
//
// [Open] listens and serves; the page is embedded in the program. The code in
// [Server.Pairing] admits one device. A [Server] is a [rewardsrc.Source], which
// also takes a [View] a few times a second:
//
//	src, err := web.Open(web.DefaultConfig(), web.Options{Period: period, Stop: halt})
//	fmt.Print(src.Pairing().QR(), src.Pairing().Text())
//	...
//	src.Show(web.View{Tick: t.Index, DGap: web.Number(t.DGap)})
//	n := src.Poll(labels)
//
// STOP on any paired device calls Options.Stop. It is not the emergency stop: it
// needs the page, the network, the computer and this program. A console cannot
// arm a robot.
//
// # Which state a press is about
//
// A press names the request on the page, if the request was visible for at least
// reaction_ms. It then answers that request, if it arrives within a minute. Any
// other press is unasked and about its own moment. Better, worse and goal never
// answer. The server maps the browser's clock (performance.now) to
// CLOCK_MONOTONIC by exchanges as in NTP (RFC 5905, section 8): of the last 16
// the one with the shortest round trip counts, with an error of at most half of
// it. The server refuses a press with a time in the future, beyond the error of
// the clocks, an answer with a time before its question, and an unasked press
// that arrives later than max_late_s. A page without a connection shows presses
// as lost and never sends them later.
//
// While the robot is stopped a press counts only as the answer to a question
// from before the stop; undo works. The page shows this.
//
// [Options.Mode] selects the presses that count: answers only (per_request),
// presses at any time (sparse), or a slider that gives a label every sample_ms
// while it is held (continuous).
//
// # Browsers never block the recorder
//
// The methods that the host's recorder calls exchange pointers and read a bounded
// queue. A separate goroutine builds the state five times a second, and when
// something happens, and gives it to each browser's goroutine, which sends only
// the newest. The server drops a browser that accepts nothing for two seconds or
// does not answer the clock for ten; it may reconnect.
//
// # Tasks
//
// With Options.Tasks the labelling device saves the task of the robot, loads another
// one, or begins one without labels, one change at a time. The control process
// decides whether the robot switches.
//
// # Access
//
// A one-time code (128 random bits, after the # of the address, which browsers do
// not send) is exchanged for a session cookie (HttpOnly, SameSite=Strict, Secure
// with TLS). A used code is replaced. The labelling device can invite others with
// codes that are valid for five minutes. One device labels at a time; the others
// watch, and may ask it to hand over.
//
// The Host header must be an address of this machine or a configured name
// (against DNS rebinding), and the Origin that of the page itself. The
// Content-Security-Policy forbids foreign content. Pairing attempts, requests,
// messages, presses and connections are limited. The server stores only SHA-256
// hashes of codes and cookies, and compares them in constant time. Sessions end
// with the program, or after a day.
//
// By default the server listens on loopback. Other addresses use TLS, with your
// certificate (tls: files) or certificates of the robot's authority
// (Options.Authority), whose fingerprints the terminal shows. The page offers the root
// of the authority (/optibfm-robot.crt). With tls: off anyone on the network can read
// the cookie and take over the console.
//
// # A network that comes late
//
// Open does not need the network. Without its address, port or certificate files
// the server reports the cause (Options.Report) and tries again, also after a
// failure of its listener. Every five seconds it compares the addresses of the
// machine: [Server.Pairing] has the current ones. The certificates of a run have one
// key. Each connection gets the oldest valid certificate with the name or address
// that it called; a new address gets a new one. A browser that trusts a
// fingerprint therefore sees it for the whole run. avahi-daemon announces the console
// as _optibfm._tcp.
//
// # Pictures
//
// With Options.Pictures the server sends the frames of a [frames.Store] over a second connection,
// /frames: a slow picture delays no press. Each paired browser receives the newest frame that it
// has time for.
//
// # Protocol
//
// JSON text messages over one WebSocket, /socket. The server sends hello once;
// state, the complete display, repeatedly; clock, which the browser answers with
// performance.now(); and refused, invite, tasks and notice as replies. The browser
// sends clock, press, stop, take, give, keep, invite and task, of at most 512 bytes.
// A malformed message ends the connection.
//
// Safari refuses the WebSocket of a page whose certificate it does not trust. Where
// the socket does not open, the page receives the same messages as server-sent events
// (POST /stream) and sends each with a POST (/message?conn=N, the number in hello).
// Frames follow their lengths (POST /frames). Origin, session and limits are checked
// alike. A device has at most four such streams, because a browser opens at most six
// connections and STOP needs one.
package web
