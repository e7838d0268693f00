// Package keyboard is a person at a terminal: a label source of single key
// presses.
//
//   - =          good (reward 1)
//   - bad (reward -1)
//     0            neither (reward 0)
//     1 ... 9      graded, evenly from bad (1) to good (9); 5 is the middle
//     u Backspace  take the newest label back
//     ? t          can't tell: closes the request without a label
//
// [Config] gives the rewards of good, neutral and bad other values. Every other
// key goes to Options.OnKey: a screen that shares the terminal has its own
// keys. The terminal is raw, so that Ctrl-C does not raise a signal: it is a
// key like the others, and whoever sets OnKey must treat it.
//
// # What a press is about
//
// A press while a request is shown answers it, unless it came sooner than a
// person reacts (reaction_ms). Any other press is an unasked label with the
// moment of the press, taken when the byte was read.
//
// # What is not a press
//
// Arrow keys and other escape sequences, mouse reports, answers of the terminal
// and pastes give no labels. A held key repeats: of presses of one key that
// follow each other within refractory_ms only the first counts (terminals
// start to repeat after 250 to 660 ms, so that a held key can give a second
// label, then no more). More keys at once than fingers press are taken for a
// paste. The queue is bounded. What was ignored is counted and shown.
//
// # The terminal afterwards
//
// [Open] changes the terminal; Halt restores it: defer it, and it is
// restored after a panic too. A program that leaves signals at their default
// effect sets Options.RestoreOnSignal. Nobody can restore the terminal in a
// process that was killed with SIGKILL: its parent does, with the function that
// [Save] returned before it started the child.
package keyboard
