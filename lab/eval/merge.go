package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// MergeFiles is Merge of the named files into another one, which it replaces, and
// returns the number of rows. A file that a run writes to is not replaced; one of
// those that are merged may be.
func MergeFiles(path string, from []string) (rows int, err error) {
	_, before := os.Stat(path)
	lock, err := openLocked(path)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil && errors.Is(before, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(path)) // which the lock has made
		}
		err = errors.Join(err, lock.Close())
	}()
	files := make(map[string][]Row, len(from))
	for _, name := range from {
		if files[name], err = ReadFile(name); err != nil {
			return 0, err
		}
	}
	merged, err := Merge(files, from)
	if err != nil {
		return 0, err
	}
	return len(merged), WriteFile(path, merged)
}

// Merge puts the results of several files, such as shards, together. A trial that is
// in several of them must have the same rows in each, but for MeasureHz; those of
// the first are kept. Files of one experiment must be of one protocol, those of one
// bundle of the same weights, and all their trials whole.
func Merge(files map[string][]Row, order []string) ([]Row, error) {
	hashes := map[string]Row{}    // by experiment
	from := map[string]string{}   // file by trial
	kept := map[string][]Row{}    // by experiment and trial
	models := map[string]string{} // hash by bundle
	var ids []string
	for _, name := range order {
		for id, rows := range byTrial(files[name]) {
			first := rows[0]
			if rows[len(rows)-1].Measure != MeasureHz {
				return nil, fmt.Errorf("%w: %s: trial %s was cut off: give the command of that run again, which goes on with it", ErrResults, name, id)
			}
			if other, ok := hashes[first.Experiment]; ok && other.ProtocolHash != first.ProtocolHash {
				return nil, fmt.Errorf("%w: %s: %w: experiment %s has the hash %.12s, and %.12s in another file", ErrResults, name, ErrOtherProtocol, first.Experiment, first.ProtocolHash, other.ProtocolHash)
			}
			hashes[first.Experiment] = first
			if err := sameModel(models, first.Bundle, first.ModelHash); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrResults, name, err)
			}
			if there, ok := kept[id]; ok {
				if !sameRows(there, rows) {
					return nil, fmt.Errorf("%w: %s: trial %s: its rows differ from those in %s: run one of them again", ErrResults, name, id, from[id])
				}
				continue
			}
			kept[id], from[id] = rows, name
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var merged []Row
	for _, id := range ids {
		merged = append(merged, kept[id]...)
	}
	slices.SortStableFunc(merged, compareTrials)
	return merged, nil
}

// byTrial divides rows by their trials.
func byTrial(rows []Row) map[string][]Row {
	trials := map[string][]Row{}
	for _, r := range rows {
		id := r.Experiment + " " + r.trialID()
		trials[id] = append(trials[id], r)
	}
	return trials
}

// sameRows compares but for the measured speed and the version.
func sameRows(a, b []Row) bool {
	return slices.EqualFunc(a, b, func(x, y Row) bool {
		if x.Measure == MeasureHz {
			x.Value, y.Value = 0, 0
		}
		x.Version, y.Version = "", ""
		return x == y
	})
}
