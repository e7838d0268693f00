//go:build linux

package report

import (
	"bytes"
	"context"
	"image"
	_ "image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// findBrowser returns a headless browser that runs here without a network, ""
// if there is none.
var findBrowser = sync.OnceValue(func() string {
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

// command makes a call of a browser in a network namespace that has no device.
func command(ctx context.Context, path, profile string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
		"--virtual-time-budget=3000", "--enable-logging=stderr", "--user-data-dir=" + profile,
	}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

// browse opens a page in a browser without a network and returns what that
// prints.
func browse(t *testing.T, page []byte, args ...string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	browser := findBrowser()
	if browser == "" {
		t.Skip("no browser runs without a network here: install chromium, and allow user namespaces")
	}
	path := filepath.Join(t.TempDir(), PageName)
	must(t, os.WriteFile(path, page, 0o600))
	cmd := command(t.Context(), browser, t.TempDir(), append(args, "file://"+path)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if complaints := regexp.MustCompile(`(?m)^.*CONSOLE.*(Uncaught|Refused|Error).*$`).FindAllString(log.String(), -1); complaints != nil {
		t.Errorf("the page complains: %s", strings.Join(complaints, "\n"))
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", browser, err, log.String())
	}
	return out
}

// shoot takes a picture of a page.
func shoot(t *testing.T, page []byte, args ...string) image.Image {
	t.Helper()
	shot := filepath.Join(t.TempDir(), "shot.png")
	browse(t, page, append(args, "--screenshot="+shot)...)
	content, err := os.ReadFile(shot)
	must(t, err)
	picture, _, err := image.Decode(bytes.NewReader(content))
	must(t, err)
	return picture
}

func TestInABrowserTheLinesHaveTheirColoursInLightAndDark(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	page := pageOf(t, newReport(t, l.rows))
	for _, dark := range []bool{false, true} {
		theme := map[bool]string{false: "1", true: "0"}[dark]
		picture := shoot(t, page, "--window-size=900,3600", "--blink-settings=preferredColorScheme="+theme)
		found := make(map[[3]uint32]bool)
		for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
			for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
				r, g, b, _ := picture.At(x, y).RGBA()
				found[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
			}
		}
		for _, method := range []string{ucb, thompson, lola, random} {
			want := methodInk(method, 0).light
			if dark {
				want = methodInk(method, 0).dark
			}
			if !found[[3]uint32{uint32(want.R), uint32(want.G), uint32(want.B)}] {
				t.Errorf("dark %v: %s is not drawn in %s", dark, method, css(want))
			}
		}
	}
}

func TestInABrowserThePageIsNoWiderThanAPhone(t *testing.T) {
	l := newLab()
	l.mainComparison(rises(0.6, 0.99, 1))
	page := pageOf(t, newReport(t, l.rows))
	measure := `<script>document.body.dataset.width = document.documentElement.scrollWidth + " of " + window.innerWidth;</script></body>`
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAll(page, nil)
	page = bytes.Replace(page, []byte("</body>"), []byte(measure), 1)
	page = bytes.ReplaceAll(page, []byte("<details>"), []byte("<details open>"))
	// A headless window is no narrower than 500 points: the page stands in a frame.
	frame := []byte(`<body style="margin:0"><iframe id="phone" width="390" height="800" srcdoc="` +
		strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(string(page)) + `"></iframe>
		<script>onload = () => { document.body.dataset.seen = document.getElementById("phone").contentDocument.body.dataset.width; };</script></body>`)
	found := regexp.MustCompile(`data-seen="([^"]*)"`).FindSubmatch(browse(t, frame, "--dump-dom"))
	if found == nil || string(found[1]) != "390 of 390" {
		t.Errorf("the page is %q wide", found)
	}
}
