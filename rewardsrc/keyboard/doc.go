// Package keyboard is a label source of single key presses at a terminal.
//
//	u Backspace  take the newest label back
//	k            keep the former task: reverts an announced change of the task
//	? t          can't tell: closes the request without a label
//	+ =          good (reward 1)
//	-            bad (reward 0)
//	0            neither (reward 0.5)
//	1 ... 9      graded, evenly from bad (1) to good (9); 5 is the middle
//	>            better than a moment ago
//	<            worse than a moment ago
//	g            this is it: the robot should be in the current state
//
// [Config] gives the rewards of good, neutral and bad other values. Every other
// key goes to Options.OnKey, for a screen that shares the terminal. The
// terminal is raw: Ctrl-C raises no signal, and OnKey must handle it.
//
// # Which state a press is about
//
// A press while a request is shown answers it, except within reaction_ms. Any
// other press is an unasked label of the moment at which its byte was read.
//
// # Input that is not a press
//
// Arrow keys and other escape sequences, mouse reports, answers of the terminal
// and pastes give no labels. A held key repeats: of presses of one key that
// follow each other within refractory_ms only the first counts (terminals
// start to repeat after 250 to 660 ms, so a held key can give a second label,
// then no more). More simultaneous keys than fingers can press count as a
// paste. The queue is bounded. Ignored keys are counted and shown.
//
// # Restoring the terminal
//
// [Open] changes the terminal and Halt restores it: call Halt in a defer, which
// also covers a panic. A program that leaves signals at their default effect
// sets Options.RestoreOnSignal. A process that was killed with SIGKILL cannot
// restore its terminal: its parent does, with the function that [Save] returned
// before it started the child.
package keyboard
