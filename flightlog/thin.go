package flightlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"optibfm/controller"
)

// keyThinned in Metadata.Extra says that a log has lost ticks on purpose.
const keyThinned = "thinned"

// Thinned reports whether the log was thinned: of its ticks only those are left
// that a label or a request is about.
func (m Metadata) Thinned() bool { return m.Extra[keyThinned] != "" }

// essence finds what of a log must be kept so that none of its labels loses its
// meaning.
type essence struct {
	labels int             // presses, or labels in ticks
	ticks  map[uint64]bool // by index
}

// findEssence reads the whole log. A damaged one has none: it is kept as it is,
// for a person to look at.
func findEssence(r *Reader) (essence, error) {
	e := essence{ticks: make(map[uint64]bool)}
	first := true
	damage, err := r.each(func(record *Record) error {
		if record.Label != nil {
			e.labels++
		}
		if record.Tick != nil {
			e.look(record.Tick, first)
			first = false
		}
		return nil
	})
	if err == nil && len(damage) > 0 {
		err = damage[0]
	}
	return e, err
}

// look keeps a tick with labels and the ticks that they are credited to, those
// that asked, and the first one, before which the belief is known.
func (e *essence) look(t *controller.Tick, first bool) {
	if first || t.Fault != controller.FaultNone || t.Flags&(controller.FlagAsked|controller.FlagRequestClosed) != 0 {
		e.ticks[t.Index] = true
	}
	for _, a := range t.Labels[:t.NumLabels] {
		e.labels++
		e.ticks[t.Index] = true
		if a.Outcome != controller.Applied {
			continue
		}
		for i := a.From; i <= a.To && i <= t.Index; i++ {
			e.ticks[i] = true
		}
	}
}

func (e *essence) keeps(r *Record) bool {
	if r.Tick != nil {
		return e.ticks[r.Tick.Index]
	}
	return r.Plan == nil
}

// thin replaces a log by its essence: the labels, the requests, the events, the
// snapshots, and the ticks that they are about, bit for bit. The log is the old
// or the new one at any moment. It returns the bytes that this freed; a log
// without any label it leaves alone, and says so.
func thin(path string) (freed int64, labelled bool, err error) {
	r, err := Open(path)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = r.Close() }()
	if r.meta.Thinned() { // it is not read again and again: for its labels it was kept
		return 0, true, nil
	}
	e, err := findEssence(r)
	if err != nil || e.labels == 0 {
		return 0, false, err
	}
	r.meta.note(keyThinned, "only the ticks that labels and requests are about are left")
	to, err := r.replaceBy(path, e.keeps)
	return r.size - to, true, err
}

// thinning ends the name of a log's essence while it is written.
const thinning = ".thinning"

// removeUnfinished removes what was left where a process ended while it thinned a
// log of a folder. Whoever thins a log has locked it.
func removeUnfinished(dir string) error {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.mcap"+thinning))
	for _, path := range paths {
		err = errors.Join(err, removeUnlessLocked(path, strings.TrimSuffix(path, thinning)))
	}
	return err
}

func removeUnlessLocked(path, log string) error {
	f, err := os.Open(log)
	switch {
	case errors.Is(err, os.ErrNotExist): // nobody thins what is gone
	case err != nil:
		return err
	default:
		defer func() { _ = f.Close() }() // which unlocks it
		if lock(f) != nil {
			return nil
		}
	}
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// replaceBy writes what is kept of a log over it. It returns the new size.
func (r *Reader) replaceBy(path string, keep func(*Record) bool) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	fresh := path + thinning
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return 0, err
	}
	copied, err := r.copyTo(f, keep)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Chtimes(fresh, info.ModTime(), info.ModTime()) // it is as old as it was
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(fresh))
	}
	return copied.To, syncDir(filepath.Dir(path))
}
