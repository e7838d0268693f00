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

// ErrMismatch marks an error of [CheckChannels].
var ErrMismatch = errors.New("robot and model do not match")

// CheckChannels compares the channels of a robot with those of a model: number, name,
// unit and order. It skips a list without names: see [Named]. The error shows both lists side by
// side and marks the rows that differ.
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

func compareChannels(robot, list string, have []hal.Channel, want []tflite.Channel) error {
	if !Named(want) {
		return nil
	}
	left, right := []string{"robot"}, []string{"model"}
	for _, c := range have {
		left = append(left, channelText(c.Name, c.Unit))
	}
	for _, c := range want {
		right = append(right, channelText(c.Name, c.Unit))
	}
	table, different := formatColumns(left, right)
	if different == 0 {
		return nil
	}
	return fmt.Errorf("controller: robot %q: %s: %w: %d of %d channels differ; "+
		"use a model of this robot, or give the robot's channels the model's names, units and order:%s",
		robot, list, ErrMismatch, different, max(len(have), len(want)), table)
}

// channelText is a channel's name and unit, with unprintable characters escaped: names come from
// files and other machines.
func channelText(name, unit string) string {
	if unit != "" {
		name += " [" + unit + "]"
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// formatColumns formats two columns with headings and counts the rows that differ.
func formatColumns(left, right []string) (table string, different int) {
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
