//go:build linux

package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"image"
	_ "image/png" // of screenshots
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"optibfm/internal/fatal"
)

// Load opens a page with a fragment in its address, in a browser without a network.
func Load(t *testing.T, page []byte, fragment string, at image.Point) *Page {
	t.Helper()
	p := need(t, isolated).Page(t, at)
	p.open(page, fragment)
	return p
}

func (p *Page) open(page []byte, fragment string) {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "page.html")
	fatal.If(p.t, os.WriteFile(path, page, 0o600))
	if problem := p.Open("file://" + path + "#" + fragment); problem != "" {
		p.t.Fatal(problem)
	}
	p.Until("document.readyState", "complete")
}

// DOM returns the page after its scripts ran.
func DOM(t *testing.T, page []byte, fragment string) []byte {
	t.Helper()
	p := Load(t, page, fragment, image.Pt(1280, 900))
	p.pass()
	return []byte(p.Eval("document.documentElement.outerHTML"))
}

// Drive runs a script in the page when the page is ready, and decodes the JSON of its return value.
// The page has no content security policy, so that a test can add scripts to it, and draws at once.
// size is WIDTH,HEIGHT.
func Drive(t *testing.T, page []byte, fragment, size, script string, result any) {
	t.Helper()
	var at image.Point
	if _, err := fmt.Sscanf(size, "%d,%d", &at.X, &at.Y); err != nil {
		t.Fatalf("size %q: %v", size, err)
	}
	p := need(t, isolated).Page(t, at)
	p.Do("Page.setBypassCSP", map[string]any{"enabled": true}, nil)
	immediate := map[string]any{"source": "window.requestAnimationFrame = (draw) => draw();"}
	p.Do("Page.addScriptToEvaluateOnNewDocument", immediate, nil)
	p.open(page, fragment)
	p.pass()
	text := p.Eval("JSON.stringify((() => { " + script + " })())")
	if err := json.Unmarshal([]byte(text), result); err != nil {
		t.Fatalf("the page returned %q: %v", text, err)
	}
}

// Picture returns a screenshot of the page in a theme, "light" or "dark".
func Picture(t *testing.T, page []byte, at image.Point, theme string) image.Image {
	t.Helper()
	p := need(t, isolated).Page(t, at)
	p.Theme(theme)
	p.open(page, "")
	p.Eval("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
	picture, _, err := image.Decode(bytes.NewReader(p.Screenshot()))
	fatal.If(t, err)
	return picture
}

// Attribute returns the value of the first attribute with a name.
func Attribute(t *testing.T, dom []byte, name string) string {
	t.Helper()
	found := regexp.MustCompile(regexp.QuoteMeta(name) + `="([^"]*)"`).FindSubmatch(dom)
	if found == nil {
		t.Fatalf("the page has no %s", name)
	}
	return html.UnescapeString(string(found[1]))
}
