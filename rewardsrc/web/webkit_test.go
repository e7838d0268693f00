package web

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"optibfm/internal/fatal"
)

// webkit is a browser with the engine of Safari (WebKitGTK), driven over WebDriver (W3C).
type webkit struct {
	t       *testing.T
	session string // its address
}

// startWebKit starts a browser that accepts any certificate, or skips the test without one.
func startWebKit(t *testing.T) *webkit {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	driver, err := exec.LookPath("WebKitWebDriver")
	found, _ := filepath.Glob("/usr/lib/*/webkit2gtk-4.*/MiniBrowser")
	if err != nil || len(found) == 0 {
		t.Skip("no WebKit: install it (apt-get install webkit2gtk-driver) to test the page in it")
	}
	display := startDisplay(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	port := fmt.Sprint(free.Addr().(*net.TCPAddr).Port)
	_ = free.Close()
	cmd := exec.Command(driver, "--host=127.0.0.1", "--port="+port)
	cmd.Env = append(os.Environ(), "DISPLAY="+display, "HOME="+t.TempDir(), "LIBGL_ALWAYS_SOFTWARE=1",
		"WEBKIT_DISABLE_COMPOSITING_MODE=1")
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	w := &webkit{t: t, session: "http://127.0.0.1:" + port + "/session"}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	var made struct{ SessionID string }
	w.do(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"acceptInsecureCerts":      true,
		"webkitgtk:browserOptions": map[string]any{"binary": found[0], "args": []string{"--automation"}},
	}}}, &made)
	w.session += "/" + made.SessionID
	t.Cleanup(func() { w.do(http.MethodDelete, "", nil, nil) })
	return w
}

// startDisplay starts an X server in memory and returns its name.
func startDisplay(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("Xvfb", "-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Skipf("no display: %v; install it (apt-get install xvfb)", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	number, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Skipf("no display: %v", err)
	}
	return ":" + number[:len(number)-1]
}

func (w *webkit) do(method, path string, body, value any) {
	w.t.Helper()
	var text []byte
	if method == http.MethodPost {
		text = marshal(body)
	}
	r, err := http.NewRequest(method, w.session+path, bytes.NewReader(text))
	fatal.If(w.t, err)
	answer, err := http.DefaultClient.Do(r)
	fatal.If(w.t, err)
	defer answer.Body.Close()
	var result struct{ Value json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil || answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %s, %v: %s", method, path, answer.Status, err, result.Value)
	}
	if value == nil {
		return
	}
	fatal.If(w.t, json.Unmarshal(result.Value, value))
}

// until waits for an expression to match.
func (w *webkit) until(expression, pattern string) {
	w.t.Helper()
	want, got := regexp.MustCompile(pattern), ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		script := map[string]any{"script": "return String(" + expression + ")", "args": []any{}}
		if w.do(http.MethodPost, "/execute/sync", script, &got); want.MatchString(got) {
			return
		}
	}
	w.t.Fatalf("%s is %q, want %s", expression, got, pattern)
}

func (w *webkit) untilText(id, pattern string) {
	w.t.Helper()
	w.until("document.getElementById('"+id+"')?.textContent", pattern)
}

func (w *webkit) click(id string) {
	w.t.Helper()
	var element map[string]string
	w.do(http.MethodPost, "/element", map[string]string{"using": "css selector", "value": "#" + id}, &element)
	for _, reference := range element {
		w.do(http.MethodPost, "/element/"+reference+"/click", map[string]any{}, nil)
	}
}

func (w *webkit) picture(name string) {
	w.t.Helper()
	if *pictures == "" {
		return
	}
	var text string
	w.do(http.MethodGet, "/screenshot", nil, &text)
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), data, 0o644)
	}
	fatal.If(w.t, err)
}

func TestPage_WorksInWebKit(t *testing.T) {
	w := startWebKit(t)
	for name, c := range map[string]struct {
		blocked bool
		link    string
	}{
		"socket": {false, "encrypted, WebSocket"},
		"stream": {true, "encrypted, event stream"},
	} {
		d, stopped := openForBrowser(t, func(cfg *Config, _ *Options) { cfg.TLS = TLSSelfSigned })
		outer := d.behind(t, func(w http.ResponseWriter, r *http.Request) bool {
			if !c.blocked || r.Header.Get("Upgrade") == "" {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		})
		outer.TLS = d.certs.config()
		outer.StartTLS()
		w.do(http.MethodPost, "/url", map[string]string{"url": outer.URL + "/#" + token(d.Pairing().URL)}, nil)
		w.untilText("link", `\d ms`)
		w.click("menu")
		w.untilText("facts", c.link)
		w.click("close")
		d.ask(1, 10*time.Minute)
		w.untilText("question", "How was it")
		time.Sleep(300 * time.Millisecond) // longer than reaction_ms
		w.click("good")
		if l := d.next(t); l.Request != 1 || l.Value != 1 {
			t.Errorf("%s: label %+v, want +1 on request 1", name, l)
		}
		w.untilText("presses", `Goodcounted · \d+ ms`)
		w.picture("webkit-" + name)
		w.click("stop")
		if by := <-stopped; by != "device 1" {
			t.Errorf("%s: stopped by %q", name, by)
		}
		w.untilText("banner", "STOP was pressed") // on device 1, and then that its halt is not confirmed
		d.end()
	}
}
