package controller

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"optibfm/hal"
	"optibfm/tflite"
)

// ErrMismatch is wrapped by the errors of [CheckChannels].
var ErrMismatch = errors.New("robot and model do not match")

// CheckChannels compares a robot's channels with those that a model was trained with: number, name,
// unit and order. It skips a list without names: see [Named]. The error shows both lists side by side
// and marks the rows that differ.
func CheckChannels(robot hal.Spec, observation, action []tflite.Channel) error {
	return errors.Join(
		compareChannels(robot.Name, "observation", robot.Obs, observation),
		compareChannels(robot.Name, "action", robot.Action, action),
	)
}

// Named reports whether a model names its channels.
func Named(channels []tflite.Channel) bool {
	return slices.ContainsFunc(channels, func(c tflite.Channel) bool { return c.Name != "" })
}

// maxRows limits the table of an error. A longer table shows only rows that differ.
const maxRows = 40

func compareChannels(robot, what string, has []hal.Channel, wants []tflite.Channel) error {
	if !Named(wants) {
		return nil
	}
	left, right := []string{"robot"}, []string{"model"}
	for _, c := range has {
		left = append(left, channelText(c.Name, c.Unit))
	}
	for _, c := range wants {
		right = append(right, channelText(c.Name, c.Unit))
	}
	table, different := sideBySide(left, right)
	if different == 0 {
		return nil
	}
	return fmt.Errorf("controller: robot %q: %s: %w: %d of %d channels differ; "+
		"use a model of this robot, or give the robot's channels the model's names, units and order:%s",
		robot, what, ErrMismatch, different, max(len(has), len(wants)), table)
}

// channelText is a channel's name and unit, with unprintable characters escaped: names come from files
// and other machines.
func channelText(name, unit string) string {
	if unit != "" {
		name += " [" + unit + "]"
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// sideBySide sets two columns with headings beside each other and counts the rows that differ.
func sideBySide(left, right []string) (table string, different int) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n       \t%s\t%s", left[0], right[0])
	rows := max(len(left), len(right))
	for i := 1; i < rows; i++ {
		robot, model, mark := cell(left, i), cell(right, i), " "
		if robot != model {
			mark = "*"
			different++
		}
		if rows <= maxRows || robot != model && different <= maxRows {
			fmt.Fprintf(w, "\n  %s %4d\t%s\t%s", mark, i-1, robot, model)
		}
	}
	_ = w.Flush() // a strings.Builder does not fail
	return b.String(), different
}

func cell(column []string, i int) string {
	if i < len(column) {
		return column[i]
	}
	return "-"
}
