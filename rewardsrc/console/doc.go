// Package console is a label source of text lines, for a pipe, a serial line or
// a labelling program.
//
//	u        take the newest label back
//	?        can't tell: closes the request without a label
//	+        good (Options.Good)
//	-        bad (Options.Bad)
//	>        better than a moment ago
//	<        worse than a moment ago
//	g        this is it: the robot should be in the current state
//	0.25     that reward, from -1000 to 1000
//	# text   a comment, ignored like an empty line
//
// The source writes a line when a label is wanted, when a request is closed, when
// a label is saved and when the input ends. An invalid line gives no label, and the reply lists the
// valid ones. The first word of a reply is for programs: wanted, closed, saved,
// refused, error, ended. There is at most one refused or error reply a second; it also
// gives the number of lines that it covers.
package console
