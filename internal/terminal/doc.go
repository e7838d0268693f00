// Package terminal shows a run to a person at a terminal.
//
// NewDisplay chooses one of three displays:
//
//   - the full screen, on a terminal of at least 80 x 24 characters: the rover's arena or a bar for
//     each observation channel; in words, the robot's behaviour, its knowledge of the task, the
//     labels and the person's next step; the request for a label, its moment, and the effect of the
//     newest label. DetailsKey shows numbers instead of the words: the episode (unless a person
//     labels), the D-gap of the last minute, the labels, the plan and the timing of the loop
//   - LineDisplay, for pipes, files and services: lines of text or of JSON
//   - QuietDisplay, which shows nothing
//
// The recorder of the host process, or the lockstep loop, calls the methods of a Display from one
// goroutine. A terminal that does not read never blocks this goroutine: the full screen drops
// frames, and LineWriter drops lines.
//
// The full screen draws with tcell, which compares frames and sets the terminal up and back. tcell
// gets the output of the terminal only. The package rewardsrc/keyboard reads the keys and sets the
// input modes, so Ctrl-C and label keys do not depend on this package. Text from devices, models
// and configurations passes through plaintext.Clean: it cannot contain an escape sequence.
//
// A display restores the terminal in End. If the process with the display dies, the control
// process calls RescueTerminal.
//
// The environment selects the characters and colours: TERM, LC_ALL, LC_CTYPE and LANG, COLORTERM,
// and NO_COLOR.
package terminal
