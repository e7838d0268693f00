package eval

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
)

// Measures of a trial.
const (
	MeasureReturn = "return" // sum of the rewards after each step of an episode; x: episode, from 0
	// MeasurePromised is the return of an episode that the scores of its plans predict, for methods
	// with scores and models with a known discount; x: episode.
	MeasurePromised = "promised"

	MeasureReward = "reward" // mean reward of the steps since the previous row; x: steps so far
	MeasureLabels = "labels" // labels used so far; x: steps so far
	MeasureAsked  = "asked"  // requests opened so far; x: steps so far
	// MeasureLearnt is 1 when the robot announces that it has learnt the task, 0 when labels
	// contradict it; x: steps so far.
	MeasureLearnt = "learnt"
	// MeasureChanged is the evidence with which the robot begins the task again
	// ([controller.Evidence]); x: steps so far.
	MeasureChanged = "changed"
	// MeasureKnown and MeasureKnownHigh are the bounds of the appraisal at the end of an episode
	// ([controller.Interval]), for trials with stop_when_learnt; x: episode.
	MeasureKnown     = "known"
	MeasureKnownHigh = "known_high"
	// MeasureSkill is the skill of the predictions at the end of an episode, less its standard
	// error ([controller.Evidence.Words]), for trials with stop_when_learnt or relearn; x: episode.
	MeasureSkill = "skill"

	// Of the last search of a trial with diagnose_every, with z_r, the z that explains all labelled
	// states of the task best; x: steps so far.
	MeasureTaskDistance = "task_distance" // ‖z_r - ẑ‖_V/β: at most 1 in the confidence set
	MeasureTaskScore    = "task_score"    // score of z_r
	MeasurePlanScore    = "plan_score"    // score of the chosen z

	MeasureHz = "hz" // ticks per second of processor time, without the simulator; x: ticks
)

// Row is one number of one trial, with what reproduces it. A results file is a CSV of rows in any
// order. A trial always has the same rows, except for MeasureHz.
type Row struct {
	Experiment string // name of the protocol's experiment
	Env        string // "walker", "cheetah", "quadruped", "antmaze", "rover", "go2"
	Task       string // such as "walk"
	Bundle     string // path of the model as in the protocol
	BFMSeed    int    // seed of the model's training, from the protocol
	Method     string // such as "ucb", "thompson_ep", "lola"
	Params     string // "key=value;key=value", sorted by key: the settings of the method
	Trial      int    // from 0
	Seed       uint64 // of the trial; all its random numbers follow from it
	Measure    string
	X          float64
	Value      float64

	Version      string // of the program
	ModelHash    string // sha256 of the bundle's weights, hexadecimal
	ProtocolHash string // of the experiment as run, see Runner.Hash
}

// Columns are the names of a row's fields, in the file's order.
var Columns = []string{
	"experiment", "env", "task", "bundle", "bfm_seed", "method", "params", "trial", "seed",
	"measure", "x", "value", "version", "model_hash", "protocol_hash",
}

// ErrResults is wrapped by every error about a results file.
var ErrResults = errors.New("eval: results")

// record returns the fields of the file.
func (r Row) record() []string {
	return []string{
		r.Experiment, r.Env, r.Task, r.Bundle, strconv.Itoa(r.BFMSeed), r.Method, r.Params, strconv.Itoa(r.Trial),
		strconv.FormatUint(r.Seed, 10), r.Measure,
		strconv.FormatFloat(r.X, 'g', -1, 64), strconv.FormatFloat(r.Value, 'g', digits, 64),
		r.Version, r.ModelHash, r.ProtocolHash,
	}
}

// digits of a value in a file: its error is far below the standard error of any result, and the file
// has half the size.
const digits = 7

// readRow is a row with the offset behind it in the file.
type readRow struct {
	Row
	end int
}

// ReadRows reads a results file with its header. The error of a damaged file wraps ErrResults and
// names the line.
func ReadRows(r io.Reader) (rows []Row, err error) {
	for row, err := range rowsOf(r) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row.Row)
	}
	return rows, nil
}

// rowsOf yields the rows of a file up to the first error.
func rowsOf(r io.Reader) iter.Seq2[readRow, error] {
	return func(yield func(readRow, error) bool) {
		reader := csv.NewReader(r)
		reader.FieldsPerRecord = len(Columns)
		head, err := reader.Read()
		if err != nil {
			yield(readRow{}, fmt.Errorf("%w: header: %w; want the columns %v", ErrResults, err, Columns))
			return
		}
		if !slices.Equal(head, Columns) {
			yield(readRow{}, fmt.Errorf("%w: header: found %v, want %v", ErrResults, head, Columns))
			return
		}
		for {
			fields, err := reader.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(readRow{}, fmt.Errorf("%w: %w", ErrResults, err))
				return
			}
			row, err := parseRow(fields)
			if err != nil {
				line, _ := reader.FieldPos(0)
				err = fmt.Errorf("%w: line %d: %w", ErrResults, line, err)
			}
			if !yield(readRow{row, int(reader.InputOffset())}, err) || err != nil {
				return
			}
		}
	}
}

func parseRow(f []string) (Row, error) {
	row := Row{
		Experiment: f[0], Env: f[1], Task: f[2], Bundle: f[3], Method: f[5], Params: f[6], Measure: f[9],
		Version: f[12], ModelHash: f[13], ProtocolHash: f[14],
	}
	var errs [5]error
	row.BFMSeed, errs[0] = strconv.Atoi(f[4])
	row.Trial, errs[1] = strconv.Atoi(f[7])
	row.Seed, errs[2] = strconv.ParseUint(f[8], 10, 64)
	row.X, errs[3] = parseFinite(f[10])
	row.Value, errs[4] = parseFinite(f[11])
	return row, errors.Join(errs[:]...)
}

func parseFinite(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = fmt.Errorf("not a finite number (%s)", text)
	}
	return v, err
}

// WriteRows writes rows without the header.
func WriteRows(w io.Writer, rows []Row) error {
	writer := csv.NewWriter(w)
	for _, row := range rows {
		if err := writer.Write(row.record()); err != nil {
			return fmt.Errorf("%w: %w", ErrResults, err)
		}
	}
	writer.Flush()
	if err := writer.Error(); err != nil {
		return fmt.Errorf("%w: %w", ErrResults, err)
	}
	return nil
}
