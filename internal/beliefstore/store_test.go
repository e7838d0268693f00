package beliefstore

import (
	"bytes"
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

	"optibfm/posterior"
)

// actAsWriter makes the test binary save to a folder until it is killed.
const actAsWriter = "BELIEFSTORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(actAsWriter); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled saves beliefs of ever more labels, and says after each how
// many it has.
func writeUntilKilled(dir string) {
	s, err := Open(dir)
	if err != nil {
		panic(err)
	}
	r := learnt(0)
	if saved, err := Load(dir); err == nil {
		r = saved
	}
	for {
		teach(r.Belief)
		if err := s.Save(r); err != nil {
			panic(err)
		}
		fmt.Println(r.Belief.Weight())
	}
}

// learnt is a record of a belief that has had n labels, each of weight 1.
func learnt(n int) Record {
	b, err := posterior.New(20, 1, 1)
	if err != nil {
		panic(err)
	}
	for range n {
		teach(b)
	}
	return Record{ModelHash: "abc", Sigma: 1, Program: "test", Robot: "fake", SavedAt: time.Unix(1e9, 0).UTC(), Belief: b}
}

func teach(b *posterior.Belief) {
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

func TestWhatIsSavedIsLoadedBitForBit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	want := learnt(12)
	save(t, dir, learnt(3))
	save(t, dir, want)
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Belief.Hash() != want.Belief.Hash() || got.Belief.Weight() != 12 || got.Belief.Lambda() != 1 {
		t.Errorf("the belief differs: weight %g", got.Belief.Weight())
	}
	got.Belief, want.Belief = nil, nil
	if got != want {
		t.Errorf("have %+v, want %+v", got, want)
	}
}

func TestAFolderWithoutARecordSaysSo(t *testing.T) {
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %v", err)
	}
}

func TestKilledAtAnyMomentAWriterLeavesARecordNoOlderThanItSaid(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 20
	}
	dir := t.TempDir()
	half := 0
	for kill := range kills {
		said := killAfter(t, dir, time.Duration(rand.IntN(4000))*time.Microsecond)
		r, err := Load(dir)
		if err != nil {
			t.Fatalf("after kill %d: %v", kill, err)
		}
		if r.Belief.Weight() < said {
			t.Fatalf("after kill %d: the writer had saved %g labels, the record has %g", kill, said, r.Belief.Weight())
		}
		if _, err := os.Stat(filepath.Join(dir, newName)); err == nil {
			half++
		}
	}
	t.Logf("%d of %d kills came while a record was written", half, kills)
}

// killAfter starts a writer, kills it some time after its first save, and
// returns the last number of labels that it said it had saved.
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
		t.Error("the writer wrote nothing")
	}
	time.Sleep(wait)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	lines := strings.Fields(out.text.String())
	said, err := strconv.ParseFloat(lines[len(lines)-1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// output keeps what a process writes, and tells when it began to.
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

func TestADamagedRecordIsRefusedWhateverTheDamage(t *testing.T) {
	whole, err := learnt(4).appendTo(nil)
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
	if err := errors.Join(os.Remove(Path(dir)), os.Mkdir(Path(dir), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("a folder: %v", err)
	}
}

func TestTwoRunsDoNotShareAFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("the second got in: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := Open(dir)
	if err != nil {
		t.Fatalf("after the first had gone: %v", err)
	}
	third.Close()
}

func TestASaveThatFailsLeavesTheOldRecord(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, learnt(5))
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Mkdir(filepath.Join(dir, newName), 0o700); err != nil { // in the way
		t.Fatal(err)
	}
	if err := s.Save(learnt(6)); err == nil {
		t.Error("no error")
	}
	if r, err := Load(dir); err != nil || r.Belief.Weight() != 5 {
		t.Errorf("the old record: %v", err)
	}
}

func TestSettingARecordAsideLosesNothing(t *testing.T) {
	dir := t.TempDir()
	if old, err := SetAside(dir); err != nil || old != "" {
		t.Errorf("of an empty folder: %q, %v", old, err)
	}
	save(t, dir, learnt(2))
	old, err := SetAside(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := os.Rename(old, Path(dir)); err != nil {
		t.Fatal(err)
	}
	if r, err := Load(dir); err != nil || r.Belief.Weight() != 2 {
		t.Errorf("what was set aside: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	whole, err := learnt(1).appendTo(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:40])
	f.Add([]byte("{\"format\":\"" + format + "\"}\n12345678"))
	f.Add([]byte("\n12345678"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, err := r.appendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again); err != nil {
			t.Fatalf("what was read is not written so that it can be read: %v", err)
		}
	})
}

func Example() {
	dir, _ := os.MkdirTemp("", "belief")
	defer os.RemoveAll(dir)
	store, _ := Open(dir)
	_ = store.Save(learnt(3))
	_ = store.Close()

	record, err := Load(dir)
	fmt.Println(record.Robot, record.Belief.Weight(), err)
	// Output: fake 3 <nil>
}
