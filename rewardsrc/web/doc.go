// Package web is a label source for the browser of a phone or a laptop: big
// buttons, what is asked and about what, a live view of the robot, and STOP.
//
// # Use
//
// [Open] listens and serves; everything that the page needs is in the program.
// The code in [Server.Pairing] lets one device in. From then on a [Server] is a
// [rewardsrc.Source] like any other, which also takes a [View] a few times a
// second:
//
//	src, err := web.Open(web.DefaultConfig(), web.Options{Period: period, Stop: halt})
//	fmt.Print(src.Pairing().Text(false)) // with a QR code
//	...
//	src.Show(web.View{Tick: t.Index, DGap: web.Number(t.DGap)})
//	n := src.Poll(labels)
//
// STOP calls Options.Stop, on any paired device. It is not the emergency stop:
// it needs the page, the network, the computer and this program. A console
// never arms a robot: there is nothing in it that could.
//
// # What a press is about
//
// A press carries the request that the page showed, if it was shown for
// longer than a person takes to react (reaction_ms), and then answers that one,
// if it arrives within a minute. Any other press is unasked and about its own moment:
// the browser's clock (performance.now) is mapped to CLOCK_MONOTONIC by
// exchanges as in NTP (RFC 5905, section 8): the one with the shortest round
// trip of the last 16 counts, and its error is at most half of that. A press that
// is dated later than it arrived, beyond the error of the clocks, is refused, as
// is an answer that is dated before its question. An unasked press that arrives
// later than max_late_s is refused. A page that has no connection sends nothing
// later: it shows such presses as lost.
//
// [Options.Mode] says which presses count: answers only (per_request), presses at any
// time (sparse), or a slider that gives a label every sample_ms while it is
// held (continuous).
//
// # Nothing waits for a browser
//
// The methods that the host's recorder calls exchange pointers and look at a
// bounded queue; they do the same work for no browser and for a hundred. A
// goroutine makes the state of everything, five times a second and when
// something happens, and gives it to each browser's own goroutine, which sends
// the newest and never an older one. A browser that takes nothing for two
// seconds, or does not answer the clock for ten, is dropped, and may come back.
//
// # Who may do what
//
// A one-time code (128 random bits, behind the # of the address, which
// browsers do not send on their own) is exchanged for a session cookie
// (HttpOnly, SameSite=Strict, Secure where encrypted). A used code is replaced.
// The labelling device can invite others with codes that live five minutes. One
// device labels at a time; the others watch, and may ask it to hand over.
//
// The Host header must be an address of this machine or a name from the
// configuration (against DNS rebinding), the Origin that of the page itself
// (against other pages); the page's Content-Security-Policy lets it load nothing
// from elsewhere. Attempts, requests, messages, presses and connections are
// limited. Only SHA-256 hashes of codes and cookies are kept, and compared in
// constant time. Sessions end with the program, or after a day.
//
// By default only this machine is listened to. Other addresses are encrypted,
// with a certificate of yours (tls: files) or one made at the start, whose
// fingerprint is shown. With tls: off everybody on the network can read the
// cookie and take the console over.
//
// # Protocol
//
// JSON text messages over one WebSocket, /socket. The server sends hello once;
// state, all there is to show, over and over; clock, to be answered with
// performance.now(); and refused, invite and notice as answers. The browser
// sends clock, press, stop, take, give, keep and invite, of at most 512 bytes. A
// malformed message ends the connection.
package web
