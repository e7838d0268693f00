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

	"optibfm/internal/redact"
)

// Error is a mistake in a configuration and its place.
type Error struct {
	File    string // path or name; "--set" for a change on the command line
	Line    int    // from 1
	Column  int    // from 1, in characters
	Width   int    // wrong characters, at least 1
	Path    string // key such as controller.gate.kappa; may be empty
	Problem string // cause and fix
	Source  string // the line
}

// setFlag is the File of a change on the command line.
const setFlag = "--set"

// Error returns the place, the problem, and the line with carets below the
// mistake, without secrets of addresses. The formatter of goccy/go-yaml is not used: it prints
// control characters of the file to the terminal and does not cut long lines.
func (e *Error) Error() string {
	gutter := fmt.Sprintf("%5d | ", e.Line)
	blank := strings.Repeat(" ", len(gutter)-2) + "| "
	line, carets := e.excerpt()
	problem := string(printable(redact.Text(e.Problem)))
	if e.File == setFlag {
		return fmt.Sprintf("%s: %s\n%s%s\n%s%s", e.File, problem, blank, line, blank, carets)
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s%s\n%s%s", e.File, e.Line, e.Column, problem, gutter, line, blank, carets)
}

// excerptWidth is the number of characters shown before, in and after the mistake.
const excerptWidth = 60

// excerpt returns the printable line, cut if it is long, and carets below the mistake.
func (e *Error) excerpt() (line, carets string) {
	text := strings.ReplaceAll(e.Source, "\t", " ")
	start := prefixSize(text, e.Column-1)
	end := start + prefixSize(text[start:], e.Width)
	if shown := redact.Text(text); shown != text {
		start, end = len(redact.Text(text[:start])), len(redact.Text(text[:end]))
		text, end = shown, min(end, len(shown))
		start = min(start, end)
	}
	before, wrong, after := printable(text[:start]), printable(text[start:end]), printable(text[end:])
	if n := len(before); n > excerptWidth {
		before = append([]rune("..."), before[n-excerptWidth:]...)
	}
	if len(wrong) > excerptWidth {
		wrong, after = wrong[:excerptWidth], []rune("...")
	}
	if len(after) > excerptWidth {
		after = append(after[:excerptWidth:excerptWidth], []rune("...")...)
	}
	line = string(before) + string(wrong) + string(after)
	return line, strings.Repeat(" ", len(before)) + strings.Repeat("^", max(1, len(wrong)))
}

// prefixSize returns the size in bytes of the first n characters of a text. An
// invalid byte counts as a character.
func prefixSize(text string, n int) (size int) {
	for ; n > 0 && size < len(text); n-- {
		_, width := utf8.DecodeRuneInString(text[size:])
		size += width
	}
	return size
}

// printable escapes invisible characters and those that control a terminal.
func printable(text string) []rune {
	var shown []rune
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			shown = append(shown, []rune(fmt.Sprintf(`\x%02x`, text[i]))...)
		case unicode.IsPrint(r):
			shown = append(shown, r)
		default:
			quoted := strconv.QuoteRune(r)
			shown = append(shown, []rune(quoted[1:len(quoted)-1])...)
		}
	}
	return shown
}

// source is a text and its name.
type source struct {
	name  string
	lines []string
}

func newSource(name, text string) *source {
	return &source{name: name, lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
}

// place is a part of a line.
type place struct {
	src          *source
	line, column int // from 1
	width        int
}

// errorAt returns an error at a place. The parser may report a place outside
// the text; errorAt moves it inside.
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

// maxErrors is the number of mistakes that [Join] keeps.
const maxErrors = 12

// Join sorts mistakes by their places and keeps the first ones of many. It
// returns nil for none.
func Join(mistakes []*Error) error {
	slices.SortStableFunc(mistakes, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var all []error
	for i, e := range mistakes {
		if i == maxErrors {
			all = append(all, fmt.Errorf("%s: %d more mistakes; fix those above first", e.File, len(mistakes)-maxErrors))
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}
