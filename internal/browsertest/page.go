//go:build linux

package browsertest

import (
	"encoding/json"
	"fmt"
	"image"
	"regexp"
	"testing"
	"time"

	"optibfm/internal/fatal"
)

// Page is a tab with separate cookies and storage. The test fails if the page throws an error or
// violates its content security policy.
type Page struct {
	t       testing.TB
	browser *Browser
	session string
	faults  []string      // guarded by browser.mu
	passed  chan struct{} // the time of pass is over
}

// Page opens a tab in a window of so many pixels.
func (b *Browser) Page(t testing.TB, at image.Point) *Page {
	t.Helper()
	p := &Page{t: t, browser: b, passed: make(chan struct{})}
	var made struct{ BrowserContextID, TargetID, SessionID string }
	p.Do("Target.createBrowserContext", nil, &made)
	p.Do("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made)
	p.Do("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	p.session = made.SessionID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.Do(domain+".enable", nil, nil)
	}
	p.Resize(at)
	t.Cleanup(func() { p.close(made.BrowserContextID) })
	return p
}

func (p *Page) close(context string) {
	_ = p.browser.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": context}, nil)
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	delete(p.browser.pages, p.session)
	for _, fault := range p.faults {
		p.t.Errorf("the page: %s", fault)
	}
}

// Do calls a method of the protocol. result may be nil.
func (p *Page) Do(method string, params, result any) {
	p.t.Helper()
	fatal.If(p.t, p.browser.call(p.session, method, params, result))
}

// Resize changes the window. A narrow one is a phone's.
func (p *Page) Resize(at image.Point) {
	p.t.Helper()
	p.Do("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": at.X, "height": at.Y, "deviceScaleFactor": 1, "mobile": at.X < 600,
	}, nil)
}

// Theme is "light" or "dark".
func (p *Page) Theme(name string) {
	p.t.Helper()
	feature := map[string]string{"name": "prefers-color-scheme", "value": name}
	p.Do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{feature}}, nil)
}

// Open opens an address and returns the error that the browser shows, or "".
func (p *Page) Open(url string) string {
	p.t.Helper()
	var result struct{ ErrorText string }
	p.Do("Page.navigate", map[string]any{"url": url}, &result)
	return result.ErrorText
}

// Eval evaluates an expression to a string, and waits for a promise.
func (p *Page) Eval(expression string) string {
	p.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	request := map[string]any{"expression": "(async () => String(await (" + expression + ")))()", "awaitPromise": true}
	p.Do("Runtime.evaluate", request, &r)
	if r.ExceptionDetails != nil {
		p.t.Fatalf("%s: %v", expression, r.ExceptionDetails)
	}
	return fmt.Sprint(r.Result.Value)
}

// Until waits for an expression to match, and returns it.
func (p *Page) Until(expression, pattern string) string {
	p.t.Helper()
	want := regexp.MustCompile(pattern)
	var got string
	for deadline := time.Now().Add(answerTime); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got = p.Eval(expression); want.MatchString(got) {
			return got
		}
	}
	p.t.Fatalf("%s is %q, want %s", expression, got, pattern)
	return ""
}

// UntilText waits for the text of an element to match.
func (p *Page) UntilText(id, pattern string) string {
	p.t.Helper()
	return p.Until("document.getElementById('"+id+"')?.innerText", pattern)
}

// Record keeps the texts that an element shows from now on, for UntilShown.
func (p *Page) Record(id string) {
	p.t.Helper()
	p.Eval(`(() => {
		const e = document.getElementById('` + id + `'), shown = [e.innerText];
		new MutationObserver(() => shown.push(e.innerText))
			.observe(e, { childList: true, characterData: true, subtree: true });
		(window.shown ??= {})['` + id + `'] = shown;
	})()`)
}

// UntilShown waits until a text that an element shows, or has shown since Record, matches.
func (p *Page) UntilShown(id, pattern string) string {
	p.t.Helper()
	return p.Until("window.shown['"+id+"'].join('\\n')", pattern)
}

// Tap touches the middle of an element, where it must be on top.
func (p *Page) Tap(id string) {
	p.t.Helper()
	p.Touch("touchStart", `(() => {
		const e = document.getElementById('`+id+`'), r = e.getBoundingClientRect();
		const x = r.x + r.width / 2, y = r.y + r.height / 2;
		return e.contains(document.elementFromPoint(x, y)) ? { x, y } : {};
	})()`)
	p.Touch("touchEnd", "")
}

// Touch sends a touch event: touchStart or touchMove at the point { x, y } of an expression, or
// touchEnd.
func (p *Page) Touch(kind, at string) {
	p.t.Helper()
	points := []any{}
	if at != "" {
		var point struct {
			X float64 `json:"x"`
			Y float64 `json:"y"`
		}
		where := p.Eval("JSON.stringify(" + at + ")")
		if err := json.Unmarshal([]byte(where), &point); err != nil || point.X == 0 {
			p.t.Fatalf("%s cannot be touched (%s)", at, where)
		}
		points = append(points, point)
	}
	p.Do("Input.dispatchTouchEvent", map[string]any{"type": kind, "touchPoints": points}, nil)
}

// Key presses a key of the keyboard.
func (p *Page) Key(text string) {
	p.t.Helper()
	key := map[string]any{"type": "keyDown", "key": text, "text": text}
	if text == " " {
		key["code"] = "Space"
	}
	p.Do("Input.dispatchKeyEvent", key, nil)
	key["type"] = "keyUp"
	p.Do("Input.dispatchKeyEvent", key, nil)
}

// Screenshot returns a PNG of the window.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.Do("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	return shot.Data
}

// pass lets the timers of the page run for a second of virtual time, which then stops.
func (p *Page) pass() {
	p.t.Helper()
	policy := map[string]any{"policy": "pauseIfNetworkFetchesPending", "budget": 1000}
	p.Do("Emulation.setVirtualTimePolicy", policy, nil)
	select {
	case <-p.passed:
	case <-time.After(answerTime):
		p.t.Fatal("the page is busy")
	}
}
