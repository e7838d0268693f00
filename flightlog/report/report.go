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
	"strings"

	"optibfm/flightlog"
)

//go:embed page
var files embed.FS

// scripts are the scripts of the page in the order in which they run.
var scripts = []string{"data.js", "plot.js", "study.js", "label.js", "scene.js", "page.js"}

// Made is the result of Write.
type Made struct {
	Bytes    int64 // length of the page
	Settings int   // settings of the what-if study in the page
	// Replay is the result of the verification, zero if Unverified is set.
	Replay flightlog.Result
	// Unverified is the reason why the log could not be replayed. The page shows it.
	Unverified error
}

// Write writes the page of a log. name is the name of the log in the page, usually its
// path; the command lines in the page contain it. With l, a person can label the log in
// the page. An error means that the log is unreadable or that writing failed.
func Write(out io.Writer, r *flightlog.Reader, name string, l *Labelling) (Made, error) {
	c, err := collect(r)
	if err != nil {
		return Made{}, fmt.Errorf("report: %w", err)
	}
	b := follow(r, c)
	study := newStudy(r, c, b)
	page, err := render(newSummary(c, b, name), newData(c, b, study, name, l))
	if err != nil {
		return Made{}, fmt.Errorf("report: %w", err)
	}
	n, err := out.Write(page)
	made := Made{Bytes: int64(n), Settings: len(study.Settings), Replay: b.result, Unverified: b.failed}
	if err != nil {
		return made, fmt.Errorf("report: %w", err)
	}
	return made, nil
}

// render fills the template. The content security policy allows only the hashes of
// the style and the script. So a name in the log that looks like markup does not run
// even if the template's escaping fails.
func render(s summary, d data) ([]byte, error) {
	content, err := json.Marshal(d) // escapes <, > and &
	if err != nil {
		return nil, err
	}
	style, script := mustRead("page.css"), scriptText()
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + hashSource(style) +
		"; script-src " + hashSource(script)
	page, err := template.New("page").Parse(mustRead("page.html"))
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
		s, policy, template.CSS(style), template.JS(script), template.JS(content),
	})
	return out.Bytes(), err
}

// scriptText joins the scripts.
func scriptText() string {
	var b strings.Builder
	b.WriteString("\"use strict\";\n")
	for _, name := range scripts {
		b.WriteString(mustRead(name))
	}
	return b.String()
}

func mustRead(name string) string {
	content, err := fs.ReadFile(files, "page/"+name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(content)
}

// hashSource returns the source of an inline script or style for the policy.
func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
