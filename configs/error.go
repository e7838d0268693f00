package configs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
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
	line, carets := e.excerpt()
	problem := string(printable([]byte(e.Problem)))
	return fmt.Sprintf("%s:%d:%d: %s\n%s%s\n%s%s", e.File, e.Line, e.Column, problem, gutter, line, blank, carets)
}

// maxBeside is how much of a line is shown before, in and after the mistake, in characters.
const maxBeside = 60

// excerpt is the line, printable and cut where it is long, and carets below the mistake.
func (e *Error) excerpt() (line, carets string) {
	text := []byte(strings.ReplaceAll(e.Source, "\t", " "))
	start := characters(text, e.Column-1)
	end := start + characters(text[start:], e.Width)
	before, wrong, after := printable(text[:start]), printable(text[start:end]), printable(text[end:])
	if n := len(before); n > maxBeside {
		before = append([]rune("..."), before[n-maxBeside:]...)
	}
	if len(wrong) > maxBeside {
		wrong, after = wrong[:maxBeside], []rune("...")
	}
	if len(after) > maxBeside {
		after = append(after[:maxBeside:maxBeside], []rune("...")...)
	}
	line = string(before) + string(wrong) + string(after)
	return line, strings.Repeat(" ", len(before)) + strings.Repeat("^", max(1, len(wrong)))
}

// characters is the number of bytes of the first n characters of a text. An invalid byte is a character.
func characters(text []byte, n int) (size int) {
	for ; n > 0 && size < len(text); n-- {
		_, width := utf8.DecodeRune(text[size:])
		size += width
	}
	return size
}

// printable escapes what a terminal does not show or obeys.
func printable(text []byte) []rune {
	var shown []rune
	for len(text) > 0 {
		r, width := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && width == 1:
			shown = append(shown, []rune(fmt.Sprintf(`\x%02x`, text[0]))...)
		case unicode.IsPrint(r):
			shown = append(shown, r)
		default:
			quoted := strconv.QuoteRune(r)
			shown = append(shown, []rune(quoted[1:len(quoted)-1])...)
		}
		text = text[width:]
	}
	return shown
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
			all = append(all, fmt.Errorf("%s: %d more mistakes: fix these first", e.File, len(errs)-maxErrors))
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}
