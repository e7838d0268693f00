//go:build linux

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
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

	"optibfm/flightlog"
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
		"--virtual-time-budget=6000", "--enable-logging=stderr", "--user-data-dir=" + profile,
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
func browse(t *testing.T, page, hash string, args ...string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	path := findBrowser()
	if path == "" {
		t.Skip("no browser runs without a network here: install chromium, and allow user namespaces")
	}
	cmd := command(t.Context(), path, t.TempDir(), append(args, "file://"+page+"#"+hash)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if complaints := regexp.MustCompile(`(?m)^.*CONSOLE.*(Uncaught|Refused|Error).*$`).FindAllString(log.String(), -1); complaints != nil {
		t.Errorf("the page complains: %s", strings.Join(complaints, "\n"))
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", path, err, log.String())
	}
	return out
}

// drive runs a script in the page when the page is ready, and returns the JSON
// value of what it returns.
func drive(t *testing.T, page []byte, hash, size, script string, result any) {
	t.Helper()
	driver := `<script>setTimeout(() => {
		const drive = () => { ` + script + ` };
		document.body.dataset.driven = JSON.stringify(drive());
	}, 1000)</script></body>`
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAll(page, nil)
	page = bytes.Replace(page, []byte("<head>"), []byte(`<head><script>window.requestAnimationFrame = (draw) => draw();</script>`), 1)
	page = bytes.Replace(page, []byte("</body>"), []byte(driver), 1)
	path := filepath.Join(t.TempDir(), "driven.html")
	must(t, os.WriteFile(path, page, 0o600))
	dom := browse(t, path, hash, "--dump-dom", "--window-size="+size)
	text := attribute(t, dom, "data-driven")
	if err := json.Unmarshal([]byte(text), result); err != nil {
		t.Fatalf("the page returned %q: %v", text, err)
	}
}

func attribute(t *testing.T, dom []byte, name string) string {
	t.Helper()
	found := regexp.MustCompile(name + `="([^"]*)"`).FindSubmatch(dom)
	if found == nil {
		t.Fatalf("the page has no %s", name)
	}
	return html.UnescapeString(string(found[1]))
}

func TestInABrowserWithoutANetworkThePageDrawsAndAnswers(t *testing.T) {
	log := simulated().write(t)
	_, path, _ := pageOf(t, log)
	dom := browse(t, path, "t=5&kappa=0.5&lambda=2", "--dump-dom", "--window-size=1280,1000")
	if attribute(t, dom, "data-ready") != "yes" {
		t.Error("the script did not reach its end")
	}
	var got scriptAnswer
	must(t, json.Unmarshal([]byte(attribute(t, dom, "data-result")), &got))
	want, err := flightlog.WhatIf(open(t, log), flightlog.Params{Kappa: value(0.5), Lambda: value(2)})
	must(t, err)
	compareAnswers(t, 0, got, want)
}

func TestInABrowserThePageIsNotBlankInLightAndDark(t *testing.T) {
	_, path, _ := pageOf(t, simulated().write(t))
	for _, theme := range []string{"--blink-settings=preferredColorScheme=1", "--force-dark-mode"} {
		shot := filepath.Join(t.TempDir(), "shot.png")
		browse(t, path, "", "--screenshot="+shot, "--window-size=1280,1400", theme)
		content, err := os.ReadFile(shot)
		must(t, err)
		picture, _, err := image.Decode(bytes.NewReader(content))
		must(t, err)
		colours := make(map[[4]uint32]int)
		for y := 300; y < 1400; y += 2 {
			for x := 60; x < 900; x += 2 {
				r, g, b, a := picture.At(x, y).RGBA()
				colours[[4]uint32{r, g, b, a}]++
			}
		}
		if len(colours) < 200 {
			t.Errorf("theme %q: the plots have %d colours", theme, len(colours))
		}
	}
}

func TestInABrowserKeysAndSlidersMoveWhatIsShown(t *testing.T) {
	page, _, _ := pageOf(t, simulated().write(t))
	var got struct {
		Now      []string
		Command  string
		Overflow bool
		Rows     int
	}
	script := `
		const press = (key) => {
			document.dispatchEvent(new KeyboardEvent("keydown", { key }));
			return document.getElementById("now").textContent;
		};
		const now = ["End", "Home", "ArrowRight", "n", "p", "PageDown"].map(press);
		const slider = document.getElementById("set-kappa");
		slider.value = "0.7";
		slider.dispatchEvent(new Event("change"));
		return {
			now, command: document.getElementById("command").textContent,
			overflow: document.documentElement.scrollWidth > window.innerWidth,
			rows: document.querySelectorAll("#readings div").length,
		};`
	for _, size := range []string{"1280,900", "800,1000"} {
		drive(t, page, "", size, script, &got)
		if got.Now[1] != "0.000 s, tick 0" || got.Now[2] == got.Now[1] || got.Now[0] == got.Now[1] || got.Now[3] == got.Now[2] {
			t.Errorf("%s: the cursor went to %q", size, got.Now)
		}
		if want := "optibfm replay run.mcap --kappa 0.7"; got.Command != want {
			t.Errorf("%s: the command is %q, want %q", size, got.Command, want)
		}
		if got.Overflow || got.Rows < 5 {
			t.Errorf("%s: wider than the window: %v; %d readings", size, got.Overflow, got.Rows)
		}
	}
}

func TestInABrowserNamesFromTheLogStayText(t *testing.T) {
	_, path, _ := pageOf(t, hostile().write(t))
	dom := browse(t, path, "", "--dump-dom")
	if bytes.Contains(dom, []byte("data-pwned")) {
		t.Error("a name in the log ran as a script")
	}
	if want := "<h1>" + html.EscapeString(hostileName) + ": stand</h1>"; !bytes.Contains(dom, []byte(want)) {
		t.Errorf("the page lacks %s", want)
	}
	if attribute(t, dom, "data-ready") != "yes" {
		t.Error("the script did not reach its end")
	}
}
