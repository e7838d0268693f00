package composite

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"optibfm/hal"
)

// ErrMismatch is wrapped by the errors of [CheckModel].
var ErrMismatch = errors.New("the robot does not fit the model")

// CheckModel compares a robot with the channels that a model was trained with:
// number, names, units and order. A model that does not name its channels gives
// empty lists, and is not compared. The error shows the lists side by side and
// marks the rows that differ.
func CheckModel(robot hal.Spec, observation, action []hal.Channel) error {
	return errors.Join(
		compare("observation", robot.Obs, observation),
		compare("action", robot.Action, action),
	)
}

// maxRows is how much of a table is shown whole; of a longer one only the rows
// that differ are.
const maxRows = 40

func compare(what string, robot, model []hal.Channel) error {
	if len(model) == 0 {
		return nil
	}
	left, right := column("robot", robot), column("model", model)
	rows := max(len(left), len(right))
	width := 0
	for _, text := range left {
		width = max(width, utf8.RuneCountInString(text))
	}
	var table strings.Builder
	different, shown := 0, 0
	for i := range rows {
		a, b := cell(left, i), cell(right, i)
		mark := " "
		if i > 0 && a != b {
			mark = "*"
			different++
		}
		if i > 0 && rows > maxRows && (a == b || shown > maxRows) {
			continue
		}
		shown++
		fmt.Fprintf(&table, "\n  %s %4s  %s%s  %s", mark, index(i), a, strings.Repeat(" ", width-utf8.RuneCountInString(a)), b)
	}
	if different == 0 {
		return nil
	}
	return fmt.Errorf("composite: %w: %s: %d of %d rows differ (robot %d, model %d): make the configuration's list the model's, in its order:%s",
		ErrMismatch, what, different, rows-1, len(robot), len(model), table.String())
}

// column is a heading and a cell for each channel.
func column(heading string, channels []hal.Channel) []string {
	cells := []string{heading}
	for _, c := range channels {
		text := c.Name
		if c.Unit != "" {
			text += " [" + c.Unit + "]"
		}
		cells = append(cells, text)
	}
	return cells
}

func cell(column []string, i int) string {
	if i < len(column) {
		return column[i]
	}
	return "-"
}

func index(row int) string {
	if row == 0 {
		return ""
	}
	return fmt.Sprint(row - 1)
}
