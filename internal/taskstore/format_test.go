package taskstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/posterior"
)

// change returns a file with another header and a correct checksum.
func change(t *testing.T, data []byte, old, changed string) []byte {
	t.Helper()
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("the file has no %q", old)
	}
	return sealed(bytes.Replace(data[:len(data)-checkLen], []byte(old), []byte(changed), 1))
}

func sealed(data []byte) []byte {
	return binary.LittleEndian.AppendUint64(slices.Clip(data), xxhash.Sum64(data))
}

// sameTask compares the bytes of the files of two tasks.
func sameTask(t *testing.T, a, b Task) bool {
	t.Helper()
	first, err := a.append(nil)
	fatal.If(t, err)
	second, err := b.append(nil)
	fatal.If(t, err)
	return bytes.Equal(first, second)
}

func TestParse_RefusesEveryDamage(t *testing.T) {
	whole, err := newTask(t, "turn", true).append(nil)
	fatal.If(t, err)
	refused := 0
	check := func(what string, data []byte) {
		t.Helper()
		refused++
		errtest.Is(t, errtest.Of(Parse("x", data)), ErrDamaged, what)
	}
	for n := range whole {
		check(fmt.Sprintf("cut at %d", n), whole[:n])
		for bit := range 8 {
			flipped := bytes.Clone(whole)
			flipped[n] ^= 1 << bit
			check(fmt.Sprintf("bit %d of byte %d", bit, n), flipped)
		}
	}
	check("longer", append(bytes.Clone(whole), 0))
	t.Logf("%d damaged files refused", refused)
}

// otherVersion is the fix for a file of another version of the program.
const otherVersion = "use the version that wrote it"

// The checksums of these files are right.
func TestParse_RefusesImpossibleTasks(t *testing.T) {
	whole, err := newTask(t, "turn", true).append(nil)
	fatal.If(t, err)
	nan := bytes.Clone(whole[:len(whole)-checkLen])
	binary.LittleEndian.PutUint64(nan[len(nan)-8:], 0x7ff8000000000000)
	empty, err := json.Marshal(header{Format: format})
	fatal.If(t, err)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"older":              {change(t, whole, format, "optibfm task 1"), otherVersion},
		"negative number":    {change(t, whole, `"labels":1`, `"labels":-1`), "header"},
		"larger dimension":   {change(t, whole, `"dim":3`, `"dim":4`), "bytes for the dimension 4"},
		"huge dimension":     {change(t, whole, `"dim":3`, `"dim":4294967299`), "bytes for the dimension"},
		"negative dimension": {change(t, whole, `"dim":3`, `"dim":-3`), "bytes for the dimension"},
		"too much nuisance":  {change(t, whole, `"dim":3`, `"dim":3,"nuisance":3`), "bad dimension"},
		"rho":                {change(t, whole, `"rho":0.999`, `"rho":1.5`), "bad rho"},
		"lambda":             {change(t, whole, `"lambda":0.5`, `"lambda":0`), "bad lambda"},
		"not finite":         {sealed(nan), "weight"},
		"state without head": {change(t, whole, `"belief"`, `"other"`), "without a belief"},
		"z":                  {change(t, whole, `[0.1,`, `[1e999,`), "header"},
		"zero":               {change(t, whole, `[0.1,-1e-300,0.3333333333333333]`, `[0,0]`), "z is 0"},
		"nothing":            {sealed(append(empty, '\n')), "z has 0 numbers"},
	} {
		_, err := Parse("x", c.data)
		if other := c.want == otherVersion; errors.Is(err, ErrVersion) != other || errors.Is(err, ErrDamaged) == other ||
			!strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestStore_AdvisesToRemoveOnlyDamagedFiles(t *testing.T) {
	whole, err := newTask(t, "turn", true).append(nil)
	fatal.If(t, err)
	newer := change(t, whole, format, "optibfm task 3")
	store := Store{Dir: t.TempDir()}
	for name, c := range map[string]struct {
		data    []byte
		damaged bool
	}{
		"newer": {newer, false}, "newer-cut": {newer[:len(newer)-1], true}, "cut": {whole[:len(whole)-1], true},
	} {
		fatal.If(t, os.WriteFile(store.Path(name), c.data, 0o600))
		_, err := store.Load(name)
		text := fmt.Sprint(err)
		if errors.Is(err, ErrDamaged) != c.damaged || strings.Contains(text, "or remove it") != c.damaged ||
			!c.damaged && !strings.HasSuffix(text, otherVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTask_RefusesAHeaderThatParseWouldRefuse(t *testing.T) {
	for _, size := range []int{maxHeader / 2, maxHeader} {
		task := newTask(t, "turn", false)
		task.Origin.Log = strings.Repeat("x", size)
		data, err := task.append(nil)
		if err == nil {
			_, err = Parse("turn", data)
		}
		if (err == nil) != (size < maxHeader) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, learnt := range []bool{false, true} {
		task := newTask(f, "turn", learnt)
		if learnt {
			task.Belief.Sessions = []Session{{"0123456789abcdef-0", 90}, {"afterwards-00ff", 0}}
			task.Exported = &Exported{"turn", []Channel{{"x", "m"}}, []Channel{{Name: "left"}}}
		}
		whole, err := task.append(nil)
		fatal.If(f, err)
		f.Add(whole[:len(whole)-checkLen])
	}
	f.Add([]byte("{\"format\":\"" + format + "\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Parse("x", data); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
			t.Fatalf("not ErrDamaged: %v", err)
		}
		task, err := Parse("x", sealed(data))
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
				t.Fatalf("not ErrDamaged: %v", err)
			}
			return
		}
		again, err := task.append(nil)
		fatal.If(t, err)
		if got, err := Parse("x", again); err != nil || !sameTask(t, got, task) {
			t.Fatalf("cannot read it back: %v", err)
		}
		if b := task.Belief; b != nil {
			phi := make([]float64, b.Belief.Dim())
			phi[0] = 1
			fatal.If(t, b.Belief.Update(phi, 1, posterior.MaxInformation))
		}
	})
}
