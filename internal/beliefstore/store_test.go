package beliefstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/sealed"
	"optibfm/posterior"
)

// actAsWriter is the folder to which the test binary saves until it is killed.
const actAsWriter = "BELIEFSTORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(actAsWriter); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled saves beliefs with one more label each, and prints the number
// of labels after each.
func writeUntilKilled(dir string) {
	s, err := Open(dir)
	if err != nil {
		panic(err)
	}
	r := newRecord(0)
	if saved, err := Load(dir); err == nil {
		r = saved
	}
	for {
		addLabel(r.Belief)
		if err := s.Save(r); err != nil {
			panic(err)
		}
		fmt.Println(r.Belief.Weight())
	}
}

// newRecord returns a record of a belief with n labels of weight 1.
func newRecord(n int) Record {
	b, err := posterior.New(20, 1, 1)
	if err != nil {
		panic(err)
	}
	for range n {
		addLabel(b)
	}
	return Record{
		ModelHash: "abc", Sigma: 1, Program: "test", Robot: "fake", SavedAt: time.Unix(1e9, 0).UTC(), Belief: b,
	}
}

func addLabel(b *posterior.Belief) {
	rng := rand.New(rand.NewPCG(uint64(b.Weight()), 1))
	phi := make([]float64, b.Dim())
	for i := range phi {
		phi[i] = rng.NormFloat64()
	}
	if err := b.Update(phi, rng.NormFloat64(), 1); err != nil {
		panic(err)
	}
}

func save(t *testing.T, dir string, r Record) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Save(r); err != nil {
		t.Fatal(err)
	}
}

func TestStore_LoadsBitForBit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	want := newRecord(12)
	save(t, dir, newRecord(3))
	save(t, dir, want)
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Belief.Hash() != want.Belief.Hash() || got.Belief.Weight() != 12 || got.Belief.Lambda() != 1 {
		t.Errorf("belief of weight %g", got.Belief.Weight())
	}
	got.Belief, want.Belief = nil, nil
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLoad_ReportsMissingRecord(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestStore_SurvivesKillAtAnyMoment(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 20
	}
	dir := t.TempDir()
	half := 0
	for kill := range kills {
		saved := killAfter(t, dir, time.Duration(rand.IntN(4000))*time.Microsecond)
		r, err := Load(dir)
		if err != nil {
			t.Fatalf("after kill %d: %v", kill, err)
		}
		if r.Belief.Weight() < saved {
			t.Fatalf("after kill %d: the writer had saved %g labels, the record has %g", kill, saved, r.Belief.Weight())
		}
		if _, err := os.Stat(sealed.Unfinished(Path(dir))); err == nil {
			half++
		}
	}
	t.Logf("%d of %d kills came while a record was written", half, kills)
}

// killAfter starts a writer, kills it a while after its first save, and returns
// the last printed number of labels.
func killAfter(t *testing.T, dir string, wait time.Duration) float64 {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), actAsWriter+"="+dir)
	out := &output{first: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-out.first:
	case <-time.After(20 * time.Second):
		t.Error("no output from the writer")
	}
	time.Sleep(wait)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	lines := strings.Fields(out.text.String())
	saved, err := strconv.ParseFloat(lines[len(lines)-1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// output keeps the output of a process and closes first at its start.
type output struct {
	text  bytes.Buffer
	first chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	if o.text.Len() == 0 {
		close(o.first)
	}
	return o.text.Write(p)
}

func TestLoad_RefusesDamagedRecords(t *testing.T) {
	whole, err := newRecord(4).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	check := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(Path(dir), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := 0; n < len(whole); n += 1 + n/16 {
		check(fmt.Sprintf("cut at %d", n), whole[:n])
	}
	for i := 0; i < len(whole); i += 7 {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x10
		check(fmt.Sprintf("bit of byte %d", i), flipped)
	}
	check("longer", append(bytes.Clone(whole), 0))
}

func TestLoad_RefusesFilesThatAreNotRegular(t *testing.T) {
	for name, create := range map[string]func(string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"too large": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxFile+1))
		},
	} {
		dir := t.TempDir()
		if err := create(Path(dir)); err != nil {
			t.Fatal(err)
		}
		loaded := make(chan error, 1)
		go func() {
			_, err := Load(dir)
			loaded <- err
		}()
		select {
		case err := <-loaded:
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(30 * time.Second): // a guard against a hang
			t.Fatalf("%s: Load waits", name)
		}
	}
}

func TestOpen_LocksTheFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("the second Open: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := Open(dir)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	third.Close()
}

func TestStore_FailedSaveKeepsOldRecord(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, newRecord(5))
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Mkdir(sealed.Unfinished(Path(dir)), 0o700); err != nil { // blocks the new file
		t.Fatal(err)
	}
	if err := s.Save(newRecord(6)); err == nil {
		t.Error("no error")
	}
	if r, err := Load(dir); err != nil || r.Belief.Weight() != 5 {
		t.Errorf("the old record: %v", err)
	}
}

func TestSetAside_KeepsTheRecord(t *testing.T) {
	dir := t.TempDir()
	if old, err := SetAside(dir); err != nil || old != "" {
		t.Errorf("empty folder: %q, %v", old, err)
	}
	save(t, dir, newRecord(2))
	old, err := SetAside(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := os.Rename(old, Path(dir)); err != nil {
		t.Fatal(err)
	}
	if r, err := Load(dir); err != nil || r.Belief.Weight() != 2 {
		t.Errorf("renamed record: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	whole, err := newRecord(1).AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:40])
	f.Add([]byte("{\"format\":\"" + format + "\"}\n12345678"))
	f.Add([]byte("\n12345678"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("not ErrDamaged: %v", err)
			}
			return
		}
		again, err := r.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(again); err != nil {
			t.Fatalf("cannot read it back: %v", err)
		}
	})
}

func Example() {
	dir, _ := os.MkdirTemp("", "belief")
	defer os.RemoveAll(dir)
	store, _ := Open(dir)
	_ = store.Save(newRecord(3))
	_ = store.Close()

	record, err := Load(dir)
	fmt.Println(record.Robot, record.Belief.Weight(), err)
	// Output: fake 3 <nil>
}

func TestStore_OthersCannotReadTheBelief(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	dir := filepath.Join(t.TempDir(), "state")
	save(t, dir, newRecord(1))
	for _, path := range []string{dir, Path(dir)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestParse_EstimatesTheLabelsOfEarlierPrograms(t *testing.T) {
	for _, c := range []struct {
		given, saved uint64
		early        bool
		want         uint64
	}{{5, 5, false, 5}, {5, 3, false, 3}, {5, 5, true, 5}, {0, 0, true, 0}} {
		r := newRecord(int(c.given))
		r.Noise.Labels = c.saved
		data, err := r.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.early {
			data = withoutLabels(t, data)
		}
		got, err := Parse(data)
		if err != nil || got.Labels() != c.want {
			t.Errorf("%+v: %d labels, %v", c, got.Labels(), err)
		}
	}
}

// withoutLabels removes the number of labels from the header of a record.
func withoutLabels(t *testing.T, data []byte) []byte {
	t.Helper()
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	var h map[string]any
	if err := json.Unmarshal(line, &h); err != nil {
		t.Fatal(err)
	}
	delete(h, "labels")
	body := func(dst []byte) ([]byte, error) { return append(dst, rest[:len(rest)-8]...), nil }
	data, err := sealed.Append(nil, h, body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
