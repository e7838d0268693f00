// Package report makes one HTML page of a flight log: what the robot asked,
// what it was told, what it came to believe, and how punctual it was, with a
// cursor over all of it and sliders that ask what if.
//
// The page is one file. It loads nothing, and its own security policy forbids
// it to: it can be sent by mail and opened years later without this program.
// Everything in it that came from the log is text to the browser, never markup.
//
// # What is in the page
//
// Write goes through the log three times: for what can be known about labels
// (flightlog.CollectAnswers), for all records, and for the belief
// (flightlog.Follow, which verifies the log meanwhile). A log that is damaged or
// cut, or that cannot be replayed, still becomes a page, which says what is
// missing.
//
// Columns of numbers are base64 of little-endian arrays, float32 for what is
// drawn, float64 for what is computed with. Of more than 131,072 ticks a column
// holds the least and the greatest value of each few, so that no spike is lost.
// The belief is held at 512 moments (128 where d is above 128), with the
// standard deviation of each of its dimensions where d is at most 512.
//
// # What if
//
// The page computes again what flightlog.WhatIf computes, with the same
// operations in float64, from what Write embeds:
//
//   - everything, where φ of all ticks fits in 8 MiB: the label gate is run again
//     on the states that the robot saw;
//   - labels, where only the φ of the labels do: λ and ρ are exact, and a larger κ
//     is answered for the labels that the log holds: which of them it would not
//     have asked for. It would also have asked elsewhere, which only the command
//     knows;
//   - nothing, where neither fits or the log cannot be replayed.
//
// The page shows the command that computes the same wherever it cannot.
package report
