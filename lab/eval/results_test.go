package eval

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/internal/fatal"
)

// finished returns a results file of n complete trials.
func finished(t *testing.T, n int) []byte {
	t.Helper()
	text := bytes.NewBufferString(header)
	for i := range n {
		row := Row{
			Experiment: "e", Env: "rover", Task: "spin", Bundle: "a,\"b", Method: "ucb", Params: "beta=1", Trial: i,
			Measure: MeasureReturn, Value: 1.5, ProtocolHash: "h",
		}
		last := row
		last.Measure, last.X, last.Value = MeasureHz, 10, 99
		fatal.If(t, WriteRows(text, []Row{row, last}))
	}
	return text.Bytes()
}

func opened(t *testing.T, content []byte) (*Results, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.csv")
	fatal.If(t, os.WriteFile(path, content, 0o644))
	r, err := OpenResults(path, "h")
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, path, err
}

func TestOpenResults_RemovesIncompleteTrial(t *testing.T) {
	whole := finished(t, 3)
	ends := []int{len(header), len(finished(t, 1)), len(finished(t, 2)), len(whole)}
	path := filepath.Join(t.TempDir(), "results.csv")
	for cut := range len(whole) + 1 {
		fatal.If(t, os.WriteFile(path, whole[:cut], 0o644))
		r, err := OpenResults(path, "h")
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		fatal.If(t, r.Close())
		want := len(header) // a file without a complete header starts again
		for _, end := range ends {
			if end <= cut {
				want = end
			}
		}
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		if !bytes.Equal(text, whole[:want]) {
			t.Fatalf("cut at %d: %d bytes are left, want %d", cut, len(text), want)
		}
		if said := r.Dropped != ""; said != (cut != want && cut > 0) {
			t.Fatalf("cut at %d: it says %q", cut, r.Dropped)
		}
	}
}

func TestOpenResults_RefusesDamageWithoutChangingTheFile(t *testing.T) {
	whole := string(finished(t, 3))
	for name, text := range map[string]string{
		"header":   strings.Replace(whole, "experiment", "experimnt", 1),
		"number":   strings.Replace(whole, "1.5", "1.5x", 1),
		"columns":  strings.Replace(whole, ",1.5", "", 1),
		"infinite": strings.Replace(whole, "1.5", "NaN", 1),
		"quote":    strings.Replace(whole, "ucb", `u"cb`, 1),
		"binary":   "\x00\x01\x02" + whole,
	} {
		_, path, err := opened(t, []byte(text))
		if !errors.Is(err, ErrResults) {
			t.Errorf("%s: %v", name, err)
		}
		if now, _ := os.ReadFile(path); string(now) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestOpenResults_RefusesAnotherProtocol(t *testing.T) {
	_, _, err := opened(t, bytes.ReplaceAll(finished(t, 1), []byte(",h\n"), []byte(",g\n")))
	if !errors.Is(err, ErrOtherProtocol) {
		t.Errorf("opened: %v", err)
	}
}

func TestOpenResults_RefusesALockedFile(t *testing.T) {
	r, path, err := opened(t, finished(t, 1))
	fatal.If(t, err)
	if _, err := OpenResults(path, "h"); !errors.Is(err, ErrResults) || !strings.Contains(err.Error(), "another run") {
		t.Errorf("the second run: %v", err)
	}
	fatal.If(t, r.Close())
	again, err := OpenResults(path, "h")
	fatal.If(t, err)
	fatal.If(t, again.Close())
}

// fullDisk takes half of what is written.
type fullDisk struct {
	*os.File
	full bool
}

func (f *fullDisk) Write(text []byte) (int, error) {
	if !f.full {
		return f.File.Write(text)
	}
	n, err := f.File.Write(text[:len(text)/2])
	return n, errors.Join(err, unix.ENOSPC)
}

func TestResults_AppendUndoesAPartialWrite(t *testing.T) {
	r, path, err := opened(t, finished(t, 1))
	fatal.If(t, err)
	rows, err := ReadRows(bytes.NewReader(finished(t, 3)))
	fatal.If(t, err)
	disk := &fullDisk{r.file.(*os.File), true}
	r.file = disk
	if err := r.Append(rows[2:4]); !errors.Is(err, unix.ENOSPC) || !errors.Is(err, ErrResults) {
		t.Errorf("the disk is full: %v", err)
	}
	disk.full = false
	fatal.If(t, r.Append(rows[4:6]))
	there, err := ReadFile(path)
	if err != nil || len(there) != 4 || there[3].Trial != 2 {
		t.Errorf("%v (%v)", there, err)
	}
}

func TestResults_FinishSortsUnderTheLock(t *testing.T) {
	r, path, err := opened(t, finished(t, 1))
	fatal.If(t, err)
	waiting, err := os.OpenFile(path, os.O_RDWR, 0) // a run that has opened it, no more
	fatal.If(t, err)
	defer waiting.Close()
	fatal.If(t, r.Finish())
	f, err := openLocked(path)
	fatal.If(t, err)
	defer f.Close()
	before, _ := waiting.Stat()
	now, _ := f.Stat()
	there, err := os.Stat(path)
	if err != nil || os.SameFile(before, now) || !os.SameFile(now, there) {
		t.Errorf("what is locked is not what is at %s (%v)", path, err)
	}
}

func TestMerge_RefusesContradictions(t *testing.T) {
	read := func(text string) []Row {
		rows, err := ReadRows(strings.NewReader(text))
		fatal.If(t, err)
		return rows
	}
	whole := string(finished(t, 2))
	merge := func(other string) error {
		_, err := Merge(map[string][]Row{"a": read(whole), "b": read(other)}, []string{"a", "b"})
		return err
	}
	if err := merge(strings.ReplaceAll(whole, ",99,", ",77,")); err != nil {
		t.Errorf("another speed: %v", err)
	}
	if err := merge(strings.ReplaceAll(whole, "1.5", "1.6")); !errors.Is(err, ErrResults) {
		t.Errorf("another return: %v", err)
	}
	err := merge(whole[:strings.LastIndex(whole[:len(whole)-1], "\n")+1])
	if !errors.Is(err, ErrResults) || !strings.Contains(err.Error(), "incomplete") {
		t.Errorf("half a trial: %v", err)
	}
	if err := merge(strings.ReplaceAll(whole, ",,h\n", ",m,h\n")); !errors.Is(err, ErrOtherModel) {
		t.Errorf("another model: %v", err)
	}
	if err := merge(strings.ReplaceAll(whole, ",h\n", ",g\n")); !errors.Is(err, ErrOtherProtocol) {
		t.Errorf("another protocol: %v", err)
	}
}

func TestMergeFiles_RefusesALockedOutput(t *testing.T) {
	folder := t.TempDir()
	in, out := filepath.Join(folder, "in.csv"), filepath.Join(folder, "out.csv")
	fatal.If(t, os.WriteFile(in, finished(t, 2), 0o600))
	run, err := OpenResults(out, "h")
	fatal.If(t, err)
	_, err = MergeFiles(out, []string{in})
	if !errors.Is(err, ErrResults) || !strings.Contains(err.Error(), "another run writes to it") {
		t.Errorf("beside a run: %v", err)
	}
	fatal.If(t, run.Close())
	if n, err := MergeFiles(out, []string{in}); err != nil || n != 4 {
		t.Errorf("after the run: %d rows: %v", n, err)
	}
	if n, err := MergeFiles(out, []string{out, in}); err != nil || n != 4 {
		t.Errorf("with itself: %d rows: %v", n, err)
	}
}

func TestMergeFiles_RemovesOutputAfterAnError(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.csv")
	if _, err := MergeFiles(out, []string{"there is none.csv"}); !errors.Is(err, ErrResults) {
		t.Errorf("of a file that is not there: %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the output is there: %v", err)
	}
}

func FuzzReadRows(f *testing.F) {
	f.Add([]byte(strings.Join(Columns, ",") + "\ne,rover,spin,a,0,ucb,,0,1,return,0,1.5,v,m,h\n"))
	f.Add([]byte(strings.Join(Columns, ",") + "\ne,rover,spin,a,0,ucb,,0,1,return,0,1.5"))
	f.Add([]byte("a,b\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := ReadRows(bytes.NewReader(text))
		if err != nil {
			return
		}
		out := bytes.NewBufferString(header)
		fatal.If(t, WriteRows(out, rows))
		again, err := ReadRows(out)
		if err != nil || len(again) != len(rows) {
			t.Errorf("%d rows were written, %d read: %v", len(rows), len(again), err)
		}
		end := 0
		for row := range rowsOf(bytes.NewReader(text)) {
			if row.end <= end || row.end > len(text) {
				t.Errorf("row ends at %d after %d of %d bytes", row.end, end, len(text))
			}
			end = row.end
		}
	})
}
