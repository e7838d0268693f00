package tasks

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/decimal"
	"optibfm/internal/safefile"
)

// A file of moments is CSV with these columns, in any order. Propose and the replay page write it.
// Only tick and label are required; the label column is empty until a person fills it. time_s,
// gain_nats and expected are for that person: nothing reads them.
const (
	columnTime     = "time_s" // since the first tick
	columnTick     = "tick"
	columnGain     = "gain_nats" // the D-gap, given labels for the moments above
	columnExpected = "expected"  // the label that the belief predicts
	columnState    = "state"     // stateOf
	columnLabel    = "label"
)

var columns = []string{columnTime, columnTick, columnGain, columnExpected, columnState, columnLabel}

// maxMoments is the largest size of a file of moments, bytes.
const maxMoments = 1 << 20

// stateOf identifies the features of a tick, so that labels for another log are noticed. It begins
// with a letter: a spreadsheet leaves it as it is.
func stateOf(phi []float64) string { return fmt.Sprintf("s%08x", flightlog.StateSum(phi)) }

// writeMoments writes proposed moments with an empty label column.
func writeMoments(out io.Writer, moments []moment) error {
	w := csv.NewWriter(out)
	_ = w.Write(columns) // Error returns the first error
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	for _, m := range moments {
		_ = w.Write([]string{
			number(m.seconds), strconv.FormatUint(m.tick, 10), number(m.gain), number(m.expected), stateOf(m.phi), "",
		})
	}
	w.Flush()
	return w.Error()
}

// labelled is a row with a label.
type labelled struct {
	line  int
	tick  uint64
	state string // of stateOf; "": unknown
	value float64
}

// scale has the values of the labels + and - of a log's operator.
type scale struct{ good, bad float64 }

// scaleOf returns the values of the good and the bad button of the device of a log's operator. The
// logs of earlier programs have them only in their configuration.
func scaleOf(log flightlog.Metadata, o configs.Operator) scale {
	labels := log.Control.LabelRange
	if labels == (controller.LabelRange{}) {
		labels = o.LabelRange()
	}
	return scale{good: labels.Good, bad: labels.Bad}
}

// operatorOf returns the operator of a log's configuration. Another version may have written the
// log: then the defaults apply.
func operatorOf(path string, log flightlog.Metadata) configs.Operator {
	file, err := configs.Parse(path, log.Config)
	if err != nil {
		return configs.Default().Operator
	}
	return file.Operator
}

// readMoments reads the rows with a label, in the order of the file, and the number of rows without
// one.
func readMoments(path string, s scale) (rows []labelled, empty int, err error) {
	data, err := safefile.Read(path, maxMoments)
	if err != nil {
		return nil, 0, err
	}
	if rows, empty, err = parseMoments(data, s); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, 0, fmt.Errorf("%s: no row has a label; fill the column %s", path, columnLabel)
	}
	return rows, empty, nil
}

func parseMoments(data []byte, s scale) (rows []labelled, empty int, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\uFEFF")))) // some spreadsheets write a BOM
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("empty; the first line names the columns: %s", strings.Join(columns, ","))
	}
	if err != nil {
		return nil, 0, err
	}
	if err := checkColumns(header); err != nil {
		return nil, 0, err
	}
	lines := make(map[uint64]int) // of the labels, by tick
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, empty, nil
		}
		if err != nil {
			return nil, 0, err
		}
		row, ok, err := parseRow(r, header, fields, s)
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			empty++
			continue
		}
		if first, repeated := lines[row.tick]; repeated {
			return nil, 0, fmt.Errorf("line %d: tick %d has a label in line %d; leave one of the two empty",
				row.line, row.tick, first)
		}
		lines[row.tick] = row.line
		rows = append(rows, row)
	}
}

func checkColumns(header []string) error {
	if len(header) == 1 && strings.ContainsAny(header[0], ";\t") {
		return fmt.Errorf("line 1: one column (%.60q); separate columns by commas", header[0])
	}
	for i, name := range header {
		if !slices.Contains(columns, name) || slices.Contains(header[:i], name) {
			return fmt.Errorf("line 1: column %d: unknown or repeated (%.40q); use %s",
				i+1, name, strings.Join(columns, ", "))
		}
	}
	for _, name := range []string{columnTick, columnLabel} {
		if !slices.Contains(header, name) {
			return fmt.Errorf("line 1: no column %s; the columns are %s", name, strings.Join(columns, ", "))
		}
	}
	return nil
}

// parseRow parses the row that r read last. ok is false without a label.
func parseRow(r *csv.Reader, header, fields []string, s scale) (row labelled, ok bool, err error) {
	row.line, _ = r.FieldPos(0)
	for i, text := range fields {
		text = strings.TrimSpace(text)
		want := ""
		switch header[i] {
		case columnTick:
			want = "a number of a tick"
			if row.tick, err = strconv.ParseUint(text, 10, 64); err == nil {
				err = decimal.Check(text)
			}
		case columnState:
			row.state = text
		case columnLabel:
			want = "a finite number, +, - or nothing"
			row.value, ok, err = s.parse(text)
		}
		if err != nil {
			line, column := r.FieldPos(i)
			return row, false, fmt.Errorf("line %d, column %d: %s: found %.40q; use %s",
				line, column, header[i], text, want)
		}
	}
	return row, ok, nil
}

// parse returns the value of a label. ok is false for nothing and for ?, "can't tell".
func (s scale) parse(text string) (value float64, ok bool, err error) {
	switch text {
	case "", "?":
		return 0, false, nil
	case "+":
		return s.good, true, nil
	case "-":
		return s.bad, true, nil
	}
	if value, err = strconv.ParseFloat(text, 64); err == nil {
		err = decimal.Check(text)
	}
	if err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
		err = strconv.ErrRange
	}
	return value, err == nil, err
}
