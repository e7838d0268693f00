// Package report writes one HTML page of a flight log: the requests and labels, the
// belief, the timing, a cursor over all of them, and a what-if study.
//
// The page is one file. It loads nothing, and its content security policy forbids
// loading. You can send it by mail and open it years later without this program. Text
// from the log is never markup. A person can label the log in the page: see Labelling.
//
// # Content
//
// The page shows the robot at the cursor: its picture, if pictures were recorded, its path,
// if it has the channels x, y, heading_cos and heading_sin, and every channel by name.
//
// Write reads the log several times: for all records, for the belief (flightlog.Follow,
// which also verifies the log), and for the study (flightlog.WhatIfAll). A damaged or cut
// log also becomes a page. The page lists the missing parts.
//
// Columns of numbers are little-endian arrays in base64. A column of more than 131,072
// ticks holds the smallest and the largest value of every few ticks, so spikes stay
// visible. The page holds the belief at 512 moments (128 if d is above 128), with the
// standard deviation of each dimension if d is at most 512.
//
// # What if
//
// The study is a grid of settings: the run's κ times 0, ¼, ½, 1, 2 and 4, and ρ around
// the run's own. Write computes each setting; the page only shows the results. The
// grid of a long log is smaller, at least two values of κ. The page shows the command
// for the chosen setting. The command also accepts values that are not in the grid.
package report
