package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"

	"optibfm/flightlog"
)

//go:embed page
var files embed.FS

// scripts are the page's, in the order in which they run. The first three do
// not touch the page and run without one.
var scripts = []string{"data.js", "belief.js", "whatif.js", "plot.js", "page.js"}

// Made says what Write wrote.
type Made struct {
	Bytes  int64 // length of the page
	WhatIf Study // what the page can compute again
	// Replay is what the verification found, zero where Unverified is set.
	Replay flightlog.Result
	// Unverified says why the log could not be replayed; the page says so too.
	Unverified error
}

// Write makes the page of a log. name is what the page calls the log, usually
// its path: it stands in the command lines that the page shows. An error means
// that the log could not be read at all, or out not be written.
func Write(out io.Writer, r *flightlog.Reader, name string) (Made, error) {
	c, err := collect(r)
	if err != nil {
		return Made{}, fmt.Errorf("report: %w", err)
	}
	b := follow(r, c)
	study := newStudy(c, b)
	page, err := render(newSummary(c, b, name), newData(c, b, study, name))
	if err != nil {
		return Made{}, fmt.Errorf("report: %w", err)
	}
	n, err := out.Write(page)
	made := Made{Bytes: int64(n), WhatIf: study.Mode, Replay: b.result, Unverified: b.failed}
	if err != nil {
		return made, fmt.Errorf("report: %w", err)
	}
	return made, nil
}

// render fills the template. The style and the script are allowed by their
// hashes and nothing else is: a name in the log that looks like markup would
// not run even if it got past the template's escaping.
func render(s summary, d data) ([]byte, error) {
	content, err := json.Marshal(d) // which escapes <, > and &
	if err != nil {
		return nil, err
	}
	source := mustRead("page.html")
	style, script := mustRead("page.css"), scriptText(scripts...)
	page, err := template.New("page").Parse(source)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, struct {
		Summary summary
		Policy  string
		Style   template.CSS
		Script  template.JS
		Data    template.JS
	}{
		s,
		"default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hashSource(style) + "; script-src " + hashSource(script),
		template.CSS(style), template.JS(script), template.JS(content),
	})
	return out.Bytes(), err
}

// scriptText joins scripts.
func scriptText(names ...string) string {
	var b bytes.Buffer
	b.WriteString("\"use strict\";\n")
	for _, name := range names {
		b.WriteString(mustRead(name))
	}
	return b.String()
}

func mustRead(name string) string {
	content, err := fs.ReadFile(files, "page/"+name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(content)
}

// hashSource is how a content security policy names an inline script or style.
func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
