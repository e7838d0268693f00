package flightlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// losses are ways in which other programs and persons lose a log.
var losses = map[string]func(path string) error{
	"removed":        os.Remove,
	"folder removed": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	"renamed":        func(path string) error { return os.Rename(path, path+"~") },
	"folder renamed": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+"~") },
	"truncated":      func(path string) error { return os.Truncate(path, 0) },
	"cut by 20 bytes": func(path string) error {
		info, err := os.Stat(path)
		return errors.Join(err, os.Truncate(path, info.Size()-20))
	},
	"truncated and extended": func(path string) error {
		info, err := os.Stat(path)
		return errors.Join(err, os.Truncate(path, 0), os.Truncate(path, info.Size()))
	},
	"replaced by a copy": func(path string) error {
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path+"~", text, 0o600), os.Rename(path+"~", path))
	},
}

func TestWriter_AcknowledgesNoLabelInALostLog(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			w, path := create(t, testMetadata(testShape), Options{})
			fatal.If(t, w.WriteLabel(testLabel(1)))
			fatal.If(t, lose(path))
			for i := range uint64(2) {
				fatal.If(t, w.WriteTick(randomTick(testShape, i)))
				errtest.Is(t, w.WriteLabel(testLabel(2+i)), ErrLost, "label ", 2+i)
			}
			if n := w.Stats().Labels; n != 1 {
				t.Errorf("%d labels are acknowledged, want 1", n)
			}
			errtest.Is(t, w.Close(), ErrLost, "Close")
		})
	}
}

// Between two labels the ticks report a lost log; an end without ticks reports it too.
func TestWriter_ReportsALostLogWithoutALabel(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(0, 0)
			w, path := create(t, testMetadata(testShape), Options{Now: func() time.Time { return now }})
			fatal.If(t, w.WriteLabel(testLabel(1)))
			fatal.If(t, lose(path))
			fatal.If(t, w.WriteTick(randomTick(testShape, 0)))
			now = now.Add(time.Minute)
			errtest.Is(t, w.WriteTick(randomTick(testShape, 1)), ErrLost, "tick")
			_ = w.Close()
			w, path = create(t, testMetadata(testShape), Options{})
			fatal.If(t, w.WriteLabel(testLabel(1)))
			fatal.If(t, lose(path))
			errtest.Is(t, w.Close(), ErrLost, "Close")
		})
	}
}

// changingFile is a file that others change before a write or an fsync.
type changingFile struct {
	file
	write, sync func() error
}

func (f changingFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.write(); err != nil {
		return 0, err
	}
	return f.file.WriteAt(p, off)
}

func (f changingFile) Sync() error { return errors.Join(f.sync(), f.file.Sync()) }

// A truncated file has its old length again after the next write.
func TestWriter_ALossDuringALabelIsFinal(t *testing.T) {
	nothing := func() error { return nil }
	for name, lose := range losses {
		for _, during := range []string{"write", "sync"} {
			t.Run(name+" during "+during, func(t *testing.T) {
				w, path := create(t, testMetadata(testShape), Options{})
				fatal.If(t, w.WriteLabel(testLabel(1)))
				whole := w.file
				changing := changingFile{whole, nothing, nothing}
				if during == "write" {
					changing.write = func() error { return lose(path) }
				} else {
					changing.sync = func() error { return lose(path) }
				}
				w.file = changing
				errtest.Is(t, w.WriteLabel(testLabel(2)), ErrLost, "label 2")
				w.file = whole
				errtest.Is(t, w.WriteLabel(testLabel(3)), ErrLost, "label 3")
				errtest.Is(t, w.Close(), ErrLost, "Close")
			})
		}
	}
}

func TestWriter_OverwritesBytesThatOthersAppended(t *testing.T) {
	w, path := create(t, testMetadata(testShape), Options{})
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	fatal.If(t, err)
	_, err = f.WriteString("noise")
	fatal.If(t, errors.Join(err, f.Close()))
	fatal.If(t, w.WriteLabel(testLabel(1)))
	fatal.If(t, w.Close())
	if r := open(t, path); r.Cut() != nil || len(r.Damage()) > 0 {
		t.Errorf("cut %v, damage %v", r.Cut(), r.Damage())
	}
}

func TestPictures_ContinueInAnotherFileAfterALoss(t *testing.T) {
	w, path := create(t, testMetadata(testShape), Options{})
	pictures := w.Pictures(0)
	fatal.If(t, pictures.Write(testPicture(0)))
	fatal.If(t, pictures.Flush())
	lost := open(t, path).PictureFiles()
	fatal.If(t, os.Remove(lost[0]))
	fatal.If(t, pictures.Write(testPicture(1)))
	errtest.Is(t, pictures.Flush(), ErrLost)
	fatal.If(t, pictures.Write(testPicture(2)))
	fatal.If(t, pictures.Close())
	if files := open(t, path).PictureFiles(); len(files) != 1 || files[0] == lost[0] {
		t.Errorf("files %v", files)
	}
	fatal.If(t, w.Close())
}
