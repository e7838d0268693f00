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
// The source writes a line when a label is wanted, when a request is closed and
// when a label is saved. A line that is not understood gives no label, and the
// reply says what is understood. The first word of a reply is for programs:
// wanted, closed, saved, refused, error. Of refused and error there is at most
// one a second, which also gives the number of lines that it stands for.
package console
