package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"optibfm/internal/plaintext"
	"optibfm/internal/version"
)

// report is the output of `doctor --json`. A new Version is needed to remove a key or an id, or to
// change its meaning.
type report struct {
	Version  int       `json:"version"` // 2
	Program  string    `json:"program"`
	Computer string    `json:"computer"`
	Kernel   string    `json:"kernel"`
	User     string    `json:"user"`
	Config   string    `json:"config"`  // "": none
	Posture  string    `json:"posture"` // warn or strict
	Passed   bool      `json:"passed"`  // no failure
	OK       int       `json:"ok"`
	Warned   int       `json:"warn"`
	Failed   int       `json:"fail"`
	Skipped  int       `json:"skip"`
	Findings []finding `json:"findings"`

	strict int // warnings that posture strict makes failures
}

func (d *doctor) newReport() *report {
	kernel, _ := d.read("/proc/sys/kernel/osrelease")
	return &report{
		Version: 2, Program: version.String(), Computer: d.title(), Kernel: plaintext.Clean(kernel), User: d.user.Name,
		Config: d.name, Posture: d.file.Loop.Posture, Passed: true, Findings: []finding{},
	}
}

func (r *report) add(found []finding) {
	for _, f := range found {
		switch f.Status {
		case statusOK:
			r.OK++
		case statusWarn:
			r.Warned++
			if f.Strict {
				r.strict++
			}
		case statusFail:
			r.Failed++
		case statusSkip:
			r.Skipped++
		}
	}
	r.Findings = append(r.Findings, found...)
	r.Passed = r.Failed == 0
}

// printer prints findings at once, or all as JSON at the end.
type printer struct {
	out, progress io.Writer
	json          bool
	group         string // title of the last one printed
}

func (p *printer) begin(r *report) {
	if !p.json {
		fmt.Fprintf(p.out, "%s, Linux %s, user %s\n", r.Computer, r.Kernel, r.User)
	}
}

func (p *printer) announce(c check) {
	if !p.json && c.announce != "" {
		fmt.Fprintln(p.progress, c.announce)
	}
}

func (p *printer) print(found []finding) {
	if p.json {
		return
	}
	for _, f := range found {
		if f.Group != p.group {
			p.group = f.Group
			fmt.Fprintf(p.out, "\n%s\n", f.Group)
		}
		status, text := f.Status, f.Found
		switch {
		case status == statusSkip:
			status = "-"
		case status == statusWarn && f.Strict:
			status = "warn*"
		}
		if f.Subject != "" && !strings.HasPrefix(text, f.Subject) {
			text = f.Subject + ": " + text
		}
		p.paragraph(fmt.Sprintf("  %-5s  %-15s  ", status, f.ID), text)
		if f.Fix != "" {
			p.paragraph("", "> "+f.Fix)
		}
	}
}

// paragraph prints a text after a head, wrapped at 80 columns and indented.
func (p *printer) paragraph(head, text string) {
	const width, indent = 80, 26
	for _, line := range wrap(text, width-indent) {
		fmt.Fprintln(p.out, strings.TrimRight(fmt.Sprintf("%-*s%s", indent, head, line), " "))
		head = ""
	}
}

// wrap breaks a text at spaces into lines of at most width columns and keeps its line breaks. It
// does not break a command between backquotes, a word, or an indented line, which belongs to a
// table.
func wrap(text string, width int) (lines []string) {
	const hardSpace = "\u00a0"
	parts := strings.Split(text, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], " ", hardSpace)
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(strings.Join(parts, "`")), "\n") {
		line := ""
		for i, word := range strings.Split(paragraph, " ") {
			fits := utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width
			switch {
			case i == 0:
				line = word
			case fits || strings.HasPrefix(paragraph, "  "):
				line += " " + word
			default:
				lines = append(lines, line)
				line = word
			}
		}
		lines = append(lines, line)
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], hardSpace, " ")
	}
	return lines
}

func (p *printer) end(r *report) error {
	if p.json {
		encoder := json.NewEncoder(p.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	}
	_, err := fmt.Fprintf(p.out, "\n%d ok, %d warn, %d fail, %d not checked\n", r.OK, r.Warned, r.Failed, r.Skipped)
	if err == nil && r.strict > 0 {
		_, err = fmt.Fprintf(p.out, "* failures with loop.posture: strict (%d)\n", r.strict)
	}
	return err
}
