// Package console is an operator who writes lines: a label source for a pipe,
// a serial line or a program that labels.
//
//   - good (Options.Good)
//   - bad (Options.Bad)
//     0.25       that reward, from -1000 to 1000
//     u          take the newest label back
//     ?          can't tell: closes the request without a label
//     # text     nothing, as an empty line
//
// A line that is not understood is answered with what is, and gives no label.
// The source writes a line when a label is wanted and when one is safe; they
// begin with a word for programs: wanted, closed, saved, refused, error.
package console
