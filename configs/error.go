package configs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Error is a mistake in a configuration and its place.
type Error struct {
	File    string // path or name; "--set" for a change on the command line
	Line    int    // from 1
	Column  int    // from 1, in characters
	Width   int    // characters that are wrong, at least 1
	Path    string // key such as controller.gate.kappa; may be empty
	Problem string // what is wrong and what to do
	Source  string // the line
}

// Error gives the place, the problem, and the line with a caret under the
// mistake.
func (e *Error) Error() string {
	gutter := fmt.Sprintf("%5d | ", e.Line)
	blank := strings.Repeat(" ", len(gutter)-2) + "| "
	line := strings.ReplaceAll(e.Source, "\t", " ")
	carets := strings.Repeat(" ", e.Column-1) + strings.Repeat("^", e.Width)
	return fmt.Sprintf("%s:%d:%d: %s\n%s%s\n%s%s", e.File, e.Line, e.Column, e.Problem, gutter, line, blank, carets)
}

// source is a text that values came from.
type source struct {
	name  string
	lines []string
}

func newSource(name, text string) *source {
	return &source{name: name, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
}

// place is a stretch of a line.
type place struct {
	src          *source
	line, column int // from 1
	width        int
}

// errorAt makes the error of a place, which is moved into the text where a
// parser's idea of it lies outside.
func errorAt(p place, path, problem string) *Error {
	line := min(max(p.line, 1), len(p.src.lines))
	text := strings.TrimRight(p.src.lines[line-1], "\r")
	length := utf8.RuneCountInString(text)
	column := min(max(p.column, 1), length+1)
	return &Error{
		File: p.src.name, Line: line, Column: column,
		Width: max(1, min(p.width, length+1-column)),
		Path:  path, Problem: problem, Source: text,
	}
}

// maxErrors is how many mistakes are shown at once.
const maxErrors = 12

// join orders mistakes by their place.
func join(errs []*Error) error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, 0, len(errs))
	for i, e := range errs {
		if i == maxErrors {
			all = append(all, fmt.Errorf("%s: %d more mistakes: mend these first", e.File, len(errs)-maxErrors))
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}
