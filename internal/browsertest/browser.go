//go:build linux

// Package browsertest opens pages in a headless Chromium, which it drives over the Chrome DevTools
// Protocol.
//
// All pages of a test program share a process, and one without a network has the pages of [Load].
// It ends with the test program. Tests are skipped without Chromium, without user namespaces where
// the page must have no network, and with -short.
package browsertest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Browser is a running Chromium. Several goroutines may use it.
type Browser struct {
	to *os.File // messages end with a zero byte

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	pages   map[string]*Page // by session
	ended   bool
}

// message is an answer or an event of the protocol.
type message struct {
	ID        int
	SessionID string
	Method    string
	Params    json.RawMessage
	Result    json.RawMessage
	Error     *struct{ Message string }
}

// answerTime limits a call, which takes milliseconds on a quiet machine.
const answerTime = 3 * time.Minute

var errEnded = errors.New("browsertest: the browser ended")

var (
	shared   = sync.OnceValues(func() (*Browser, error) { return start(false, "", "--ignore-certificate-errors") })
	isolated = sync.OnceValues(func() (*Browser, error) { return start(true, "") })
)

// Shared returns a browser that accepts any certificate.
func Shared(t testing.TB) *Browser {
	t.Helper()
	return need(t, shared)
}

// Own starts the browser of a user. The home folder has the certificates that it trusts; "" has
// none.
func Own(t testing.TB, home string, flags ...string) *Browser {
	t.Helper()
	b := need(t, func() (*Browser, error) { return start(false, home, flags...) })
	t.Cleanup(func() { _ = b.call("", "Browser.close", nil, nil) })
	return b
}

func need(t testing.TB, start func() (*Browser, error)) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	b, err := start()
	if err != nil {
		t.Skipf("no browser: install chromium, and allow user namespaces: %v", err)
	}
	return b
}

func find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither Chromium nor Chrome is in PATH")
}

// start starts a browser that ends when this process does. The shell then removes its profile,
// which is also its home by default.
func start(isolate bool, home string, flags ...string) (*Browser, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return nil, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args := append([]string{"-c", `"$@"; rm -rf -- "$0"`, profile, path,
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--disable-renderer-backgrounding", // a page without a screen would have a low priority, and starve
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir=" + profile}, flags...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Env = append(os.Environ(), "HOME="+cmp.Or(home, profile))
	cmd.ExtraFiles = []*os.File{in, out} // descriptors 3 and 4
	if isolate {
		cmd.SysProcAttr = &syscall.SysProcAttr{ // a network namespace without devices
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	err = cmd.Start()
	_, _ = in.Close(), out.Close()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	b := &Browser{to: to, waiting: map[int]chan message{}, pages: map[string]*Page{}}
	go func() {
		b.listen(from)
		_ = cmd.Wait()
	}()
	if err := b.call("", "Browser.getVersion", nil, nil); err != nil {
		_ = to.Close()
		return nil, err
	}
	return b, nil
}

// listen receives messages until the browser ends.
func (b *Browser) listen(from *os.File) {
	defer from.Close()
	for received := bufio.NewReader(from); ; {
		text, err := received.ReadBytes(0)
		if err != nil {
			break
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err == nil {
			b.receive(m)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, waiting := range b.waiting {
		close(waiting)
	}
}

func (b *Browser) receive(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if waiting := b.waiting[m.ID]; waiting != nil {
		delete(b.waiting, m.ID)
		waiting <- m
		return
	}
	p := b.pages[m.SessionID]
	if p == nil {
		return
	}
	violation := m.Method == "Log.entryAdded" && strings.Contains(string(m.Params), "Content Security")
	switch {
	case m.Method == "Runtime.exceptionThrown" || violation:
		p.faults = append(p.faults, string(m.Params))
	case m.Method == "Emulation.virtualTimeBudgetExpired":
		close(p.passed)
	}
}

// call calls a method of the protocol. result may be nil.
func (b *Browser) call(session, method string, params, result any) error {
	answer := make(chan message, 1)
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return errEnded
	}
	b.next++
	b.waiting[b.next] = answer
	request := map[string]any{"id": b.next, "method": method}
	if params != nil {
		request["params"] = params
	}
	if session != "" {
		request["sessionId"] = session
	}
	text, err := json.Marshal(request)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m, ok := <-answer:
		if !ok {
			return errEnded
		}
		if m.Error != nil {
			return fmt.Errorf("browsertest: %s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-time.After(answerTime):
		return fmt.Errorf("browsertest: %s: no answer", method)
	}
}
