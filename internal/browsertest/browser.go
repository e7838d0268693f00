//go:build linux

// Package browsertest opens pages in a headless browser without a network.
//
// It skips tests without Chromium or user namespaces, and with -short.
package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"image"
	_ "image/png" // of screenshots
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// find returns a browser that runs without a network, "" if there is none.
var find = sync.OnceValue(func() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		profile, err := os.MkdirTemp("", "browser")
		if err != nil {
			continue
		}
		defer func() { _ = os.RemoveAll(profile) }()
		if _, err := command(context.Background(), path, profile, "--dump-dom", "about:blank").Output(); err == nil {
			return path
		}
	}
	return ""
})

// command runs a browser in a network namespace without devices.
func command(ctx context.Context, path, profile string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
		"--virtual-time-budget=6000", "--enable-logging=stderr", "--user-data-dir=" + profile,
	}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

var pageError = regexp.MustCompile(`(?m)^.*CONSOLE.*(Uncaught|Refused|Error).*$`)

// Open opens a page with a fragment in its address and returns the output of the
// browser. The test fails if the page logs an error.
func Open(t *testing.T, page []byte, fragment string, args ...string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	browser := find()
	if browser == "" {
		t.Skip("no browser without a network: install chromium and allow user namespaces")
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t.Context(), browser, t.TempDir(), append(args, "file://"+path+"#"+fragment)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if found := pageError.FindAllString(log.String(), -1); found != nil {
		t.Errorf("the page logs %s", strings.Join(found, "\n"))
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", browser, err, log.String())
	}
	return out
}

// DOM returns the page after its scripts ran.
func DOM(t *testing.T, page []byte, fragment string, args ...string) []byte {
	t.Helper()
	return Open(t, page, fragment, append(args, "--dump-dom")...)
}

// Drive runs a script in the page when the page is ready, and decodes the JSON of its return value.
func Drive(t *testing.T, page []byte, fragment, size, script string, result any) {
	t.Helper()
	driver := `<script>setTimeout(() => {
		const drive = () => { ` + script + ` };
		document.body.dataset.driven = JSON.stringify(drive());
	}, 1000)</script></body>`
	immediate := `<head><script>window.requestAnimationFrame = (draw) => draw();</script>`
	page = bytes.Replace(Unguarded(page), []byte("<head>"), []byte(immediate), 1)
	page = bytes.Replace(page, []byte("</body>"), []byte(driver), 1)
	text := Attribute(t, DOM(t, page, fragment, "--window-size="+size), "data-driven")
	if err := json.Unmarshal([]byte(text), result); err != nil {
		t.Fatalf("the page returned %q: %v", text, err)
	}
}

// Picture returns a screenshot of the page.
func Picture(t *testing.T, page []byte, args ...string) image.Image {
	t.Helper()
	shot := filepath.Join(t.TempDir(), "shot.png")
	Open(t, page, "", append(args, "--screenshot="+shot)...)
	content, err := os.ReadFile(shot)
	if err != nil {
		t.Fatal(err)
	}
	picture, _, err := image.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// Theme returns the browser flag for a light or a dark page.
func Theme(dark bool) string {
	if dark {
		return "--blink-settings=preferredColorScheme=0"
	}
	return "--blink-settings=preferredColorScheme=1"
}

// Unguarded removes the content security policy of a page, so that a test can add scripts.
func Unguarded(page []byte) []byte {
	return regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAll(page, nil)
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
