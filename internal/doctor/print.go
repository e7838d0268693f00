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

// doctorReport is what `doctor --json` prints. Keys and ids are stable: new ones
// may come, none goes or changes its meaning without a new Version.
type doctorReport struct {
	Version  int       `json:"version"` // 1
	Program  string    `json:"program"`
	Computer string    `json:"computer"`
	Kernel   string    `json:"kernel"`
	User     string    `json:"user"`
	Config   string    `json:"config"`  // "" for none
	Posture  string    `json:"posture"` // warn or strict
	Passed   bool      `json:"passed"`  // nothing fails
	OK       int       `json:"ok"`
	Warned   int       `json:"warn"`
	Failed   int       `json:"fail"`
	Skipped  int       `json:"skip"`
	Findings []finding `json:"findings"`

	strict int // warnings that posture strict makes failures
}

func (d *doctor) newReport() *doctorReport {
	kernel, _ := d.read("/proc/sys/kernel/osrelease")
	return &doctorReport{
		Version: 1, Program: version.String(), Computer: d.Title(), Kernel: plaintext.Clean(kernel), User: d.user.Name,
		Config: d.name, Posture: d.file.Loop.Posture, Passed: true, Findings: []finding{},
	}
}

func (r *doctorReport) Add(found []finding) {
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

// doctorPrinter shows findings as they come, or all as JSON at the end.
type doctorPrinter struct {
	out, progress io.Writer
	json          bool
	group         string
}

func newDoctorPrinter(out, progress io.Writer, asJSON bool) *doctorPrinter {
	return &doctorPrinter{out: out, progress: progress, json: asJSON}
}

const doctorWidth = 80

func (p *doctorPrinter) Begin(r *doctorReport) {
	if p.json {
		return
	}
	for i, line := range fold(fmt.Sprintf("%s, Linux %s, as %s", r.Computer, r.Kernel, r.User), doctorWidth-2) {
		fmt.Fprintln(p.out, strings.Repeat("  ", min(i, 1))+line)
	}
}

// waiting is for whoever wonders; it is no part of the output.
func (p *doctorPrinter) waiting(text string) {
	if !p.json {
		fmt.Fprintln(p.progress, text)
	}
}

// statusWord has a star where posture strict would say fail.
func statusWord(f finding) string {
	switch {
	case f.Status == statusSkip:
		return "-"
	case f.Status == statusWarn && f.Strict:
		return "warn*"
	}
	return f.Status
}

func (p *doctorPrinter) findings(found []finding) {
	if p.json {
		return
	}
	const head, idWidth = "  %-5s  %-16s  ", 16
	indent := 2 + 5 + 2 + idWidth + 2
	for _, f := range found {
		if f.Group != p.group {
			p.group = f.Group
			fmt.Fprintf(p.out, "\n%s\n", f.Group)
		}
		text := f.Found
		if f.Subject != "" && !strings.HasPrefix(text, f.Subject) {
			text = f.Subject + ": " + text
		}
		p.paragraph(fmt.Sprintf(head, statusWord(f), f.ID), indent, text)
		if f.Mend != "" {
			p.paragraph(strings.Repeat(" ", indent), indent, "> "+f.Mend)
		}
	}
}

// paragraph prints a text that begins after a head and goes on indented.
func (p *doctorPrinter) paragraph(head string, indent int, text string) {
	for _, line := range fold(text, doctorWidth-indent) {
		fmt.Fprintln(p.out, strings.TrimRight(head+line, " "))
		head = strings.Repeat(" ", indent)
	}
}

// fold breaks a text into lines of at most width columns, at spaces, and keeps
// its own line breaks. What stands between backquotes is a command, and stays
// whole where a line can hold it. Longer paths are broken after a slash; other
// words that are longer stand alone. An indented line is part of a table and stays as it is.
func fold(text string, width int) (lines []string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(paragraph, "  ") {
			lines = append(lines, paragraph)
			continue
		}
		line := ""
		for _, word := range foldWords(strings.TrimRight(paragraph, " "), width) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
				line += " " + word
			default:
				lines = append(lines, line)
				line = word
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// foldWords splits at spaces outside of commands.
func foldWords(text string, width int) (words []string) {
	for _, word := range strings.Split(text, " ") {
		for utf8.RuneCountInString(word) > width {
			cut := strings.LastIndexByte(string([]rune(word)[:width]), '/') + 1
			if cut == 0 {
				break
			}
			words, word = append(words, word[:cut]), word[cut:]
		}
		last := len(words) - 1
		if last >= 0 && strings.Count(words[last], "`")%2 == 1 && utf8.RuneCountInString(words[last])+1+utf8.RuneCountInString(word) <= width {
			words[last] += " " + word
			continue
		}
		words = append(words, word)
	}
	return words
}

func (p *doctorPrinter) End(r *doctorReport) error {
	if p.json {
		encoder := json.NewEncoder(p.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	}
	_, err := fmt.Fprintf(p.out, "\n%d ok, %d warn, %d fail, %d not checked\n", r.OK, r.Warned, r.Failed, r.Skipped)
	if err == nil && r.strict > 0 {
		_, err = fmt.Fprintf(p.out, "* %d of the warnings would fail with loop.posture: strict\n", r.strict)
	}
	return err
}

// joined lists words.
func joined(words []string) string { return strings.Join(words, ", ") }
