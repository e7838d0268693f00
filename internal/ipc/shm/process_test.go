package shm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// The test program also runs as the other process. childRole is its task; execPrefix
// is a program, such as qemu-aarch64, that runs it.
const (
	childRole  = "OPTIBFM_SHM_CHILD"
	execPrefix = "OPTIBFM_TEST_EXEC"
)

func TestMain(m *testing.M) {
	role := os.Getenv(childRole)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := beChild(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beChild is the other process. The segment is descriptor 3.
func beChild(role string) error {
	s, err := Open(os.NewFile(3, "segment"), twoWay())
	if err != nil {
		return err
	}
	p, err := hostSide(s)
	if err != nil {
		return err
	}
	switch role {
	case "talk":
		err := p.talk()
		fmt.Printf("child: %v\n", p)
		return err
	case "talk for ever": // until it is killed
		for {
			if err := p.step(); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("unknown role %q", role)
}

// partner is one of two that exchange messages over a segment with the layout twoWay
// and check them. A message is a number, repeated over its whole length, so that a
// torn message is detected.
type partner struct {
	out     *MailboxWriter
	in      *MailboxReader
	send    *Producer
	receive *Consumer
	stop    *atomic.Uint64 // how many have finished

	published, newest uint64
	sent, received    uint64
	fresh             uint64
}

func controlSide(s *Segment) (*partner, error) {
	return newPartner(s, "state", "plan", "ticks", "labels")
}

func hostSide(s *Segment) (*partner, error) {
	return newPartner(s, "plan", "state", "labels", "ticks")
}

func newPartner(s *Segment, out, in, send, receive string) (*partner, error) {
	p := &partner{}
	var err error
	if p.out, err = s.MailboxWriter(out); err != nil {
		return nil, err
	}
	if p.in, err = s.MailboxReader(in); err != nil {
		return nil, err
	}
	if p.send, err = s.Producer(send); err != nil {
		return nil, err
	}
	if p.receive, err = s.Consumer(receive); err != nil {
		return nil, err
	}
	p.stop, err = s.Word("stop")
	return p, err
}

func (p *partner) String() string {
	return fmt.Sprintf("published %d, read %d new; sent %d, received %d",
		p.published, p.fresh, p.sent, p.received)
}

func fill(b []byte, n uint64) {
	words := numbers[uint64](b[:len(b)&^7])
	for i := range words {
		words[i] = n
		if i == len(words)/2 {
			yield(n)
		}
	}
}

// yield sometimes lets the other process run, so that the two also interrupt each
// other inside messages on one processor.
func yield(n uint64) {
	if n%4 == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		runtime.Gosched()
	}
}

// same returns the number of a message.
func same(b []byte) (uint64, error) {
	words := numbers[uint64](b[:len(b)&^7])
	for i, w := range words {
		if w != words[0] {
			return 0, fmt.Errorf("torn: word 0 is %d, word %d is %d", words[0], i, w)
		}
	}
	return words[0], nil
}

// step does each operation once.
func (p *partner) step() error {
	p.published++
	fill(p.out.Buffer(), p.published)
	p.out.Publish()
	if err := p.look(); err != nil {
		return err
	}
	p.offer()
	if err := p.take(); err != nil {
		return err
	}
	for _, err := range []error{p.out.Err(), p.in.Err(), p.send.Err(), p.receive.Err()} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *partner) look() error {
	buf, fresh := p.in.Read()
	if buf == nil {
		return nil
	}
	n, err := same(buf)
	if err != nil {
		return fmt.Errorf("mailbox: %w", err)
	}
	if n < p.newest || fresh != (n > p.newest) {
		return fmt.Errorf("mailbox: read %d, fresh %v, after %d", n, fresh, p.newest)
	}
	if fresh {
		p.fresh++
	}
	p.newest = n
	// The buffer is ours: it must not change while we look at it.
	yield(n)
	if again, err := same(buf); err != nil || again != n {
		return fmt.Errorf("mailbox: %d changed to %d in the buffer: %w", n, again, err)
	}
	return nil
}

func (p *partner) offer() {
	if slot, ok := p.send.Reserve(); ok {
		fill(slot, p.sent)
		p.send.Commit()
		p.sent++
	}
}

func (p *partner) take() error {
	for {
		slot, ok := p.receive.Peek()
		if !ok {
			return nil
		}
		n, err := same(slot)
		if err != nil {
			return fmt.Errorf("ring: %w", err)
		}
		if n != p.received {
			return fmt.Errorf("ring: message %d after %d received", n, p.received)
		}
		p.received++
		yield(n)
		p.receive.Release()
	}
}

const (
	talkTime = 300 * time.Millisecond
	patience = 2 * time.Minute // for the other one to start, or to finish
)

// meet waits for the first message of the other.
func (p *partner) meet() error {
	for end := time.Now().Add(patience); p.fresh == 0; {
		if time.Now().After(end) {
			return fmt.Errorf("no message from the other")
		}
		if err := p.step(); err != nil {
			return err
		}
	}
	return nil
}

// talk exchanges messages until both partners have finished.
func (p *partner) talk() error {
	if err := p.meet(); err != nil {
		return err
	}
	for end := time.Now().Add(talkTime); time.Now().Before(end); {
		if err := p.step(); err != nil {
			p.stop.Add(1)
			return err
		}
	}
	p.stop.Add(1)
	for end := time.Now().Add(patience); p.stop.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the other did not finish")
		}
	}
	// Everything has been sent: nothing may be missing now.
	if err := p.look(); err != nil {
		return err
	}
	return p.take()
}

// TestMailbox_NeverLosesOrSharesTheMiddleBuffer exchanges tiny messages as fast as
// possible.
func TestMailbox_NeverLosesOrSharesTheMiddleBuffer(t *testing.T) {
	s := heap(t, Section{Name: "m", Kind: KindMailbox, Size: 16})
	w, r := mailboxOf(t, s, "m")
	const messages = 400_000
	go func() {
		for n := range uint64(messages) {
			words := numbers[uint64](w.Buffer())
			words[0], words[1] = n+1, n+1
			w.Publish()
		}
	}()
	for newest := uint64(0); newest < messages; {
		buf, fresh := r.Read()
		if !fresh {
			runtime.Gosched()
			continue
		}
		words := numbers[uint64](buf)
		if words[0] != words[1] || words[0] <= newest {
			t.Fatalf("read %d, %d after %d", words[0], words[1], newest)
		}
		newest = words[0]
	}
	if w.Err() != nil || r.Err() != nil {
		t.Fatal(w.Err(), r.Err())
	}
}

func startChild(t *testing.T, s *Segment, role string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	fatal.If(t, err)
	args := append(strings.Fields(os.Getenv(execPrefix)), self)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.ExtraFiles = []*os.File{s.File()}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	fatal.If(t, cmd.Start())
	return cmd, out
}

func TestSegment_TwoGoroutinesExchangeWholeMessages(t *testing.T) {
	s := heap(t, twoWay().Sections...)
	control, err := controlSide(s)
	fatal.If(t, err)
	host, err := hostSide(s)
	fatal.If(t, err)
	done := make(chan error)
	go func() { done <- host.talk() }()
	errtest.Nil(t, control.talk())
	errtest.Nil(t, <-done)
	checkTogether(t, control, host)
}

// checkTogether compares the sent messages of both with the received ones.
func checkTogether(t *testing.T, control, host *partner) {
	t.Helper()
	t.Logf("control: %v; host: %v", control, host)
	if control.newest != host.published || host.newest != control.published {
		t.Error("a newest message was not read")
	}
	if control.received != host.sent {
		t.Errorf("%d labels sent, %d received", host.sent, control.received)
	}
	if host.received != control.sent {
		t.Errorf("%d ticks sent, %d received", control.sent, host.received)
	}
}

func TestSegment_TwoProcessesExchangeWholeMessages(t *testing.T) {
	s := create(t, twoWay())
	control, err := controlSide(s)
	fatal.If(t, err)
	cmd, out := startChild(t, s, "talk")
	errtest.Nil(t, control.talk())
	errtest.Nil(t, cmd.Wait(), "child: ", out)
	t.Logf("parent: %v; %s", control, out)
	if control.fresh == 0 || control.received == 0 {
		t.Error("no message was received")
	}
}

func TestSegment_SurvivesAKilledChild(t *testing.T) {
	kills := 20
	if testing.Short() || os.Getenv(execPrefix) != "" {
		kills = 3
	}
	heard := uint64(0)
	for range kills {
		s := create(t, twoWay())
		control, err := controlSide(s)
		fatal.If(t, err)
		cmd, out := startChild(t, s, "talk for ever")
		for end := time.Now().Add(10 * time.Second); control.fresh == 0 && time.Now().Before(end); runtime.Gosched() {
			fatal.If(t, control.step())
		}
		death := time.Now().Add(time.Duration(rand.Int64N(int64(5 * time.Millisecond))))
		for time.Now().Before(death) {
			fatal.If(t, control.step())
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if out.Len() > 0 {
			t.Fatalf("the child printed %s", out)
		}
		for range 1000 {
			if err := control.step(); err != nil {
				t.Fatalf("after the end of the child: %v", err)
			}
		}
		heard += control.fresh
		if _, err := hostSide(s); err == nil {
			t.Fatal("a second host took the same ends")
		}
	}
	if heard == 0 {
		t.Fatal("no message from any child")
	}
}

// TestSegment_WorksOnArm64 runs the tests of this file under qemu-user, parent and child. On
// an amd64 host it cannot test the weaker memory order of arm64, for which this
// package relies on Go's atomics.
func TestSegment_WorksOnArm64(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for arm64")
	}
	if os.Getenv(execPrefix) != "" {
		t.Skip("this is the run under qemu")
	}
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("qemu-aarch64 is not installed (Debian: qemu-user)")
	}
	binary := filepath.Join(t.TempDir(), "shm.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("cannot build for arm64: %v: %s", err, out)
	}
	run := exec.Command(qemu, binary, "-test.v", "-test.short", "-test.timeout=120s")
	run.Env = append(os.Environ(), execPrefix+"="+qemu)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("--- PASS: TestSegment_TwoProcessesExchangeWholeMessages")) {
		t.Fatalf("the two processes did not exchange messages:\n%s", out)
	}
	for l := range strings.Lines(string(out)) {
		if strings.Contains(l, "parent: ") || strings.Contains(l, "child: ") {
			t.Log(strings.TrimSpace(l))
		}
	}
}
