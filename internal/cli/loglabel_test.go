package cli

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"optibfm/internal/errtest"

	"optibfm/internal/fatal"
	"optibfm/internal/taskstore"
)

// labelByReward fills the label column of a file of moments with the simulator's rewards.
func labelByReward(t *testing.T, path string, rewards map[string]float64) {
	t.Helper()
	file, err := os.Open(path)
	fatal.If(t, err)
	rows, err := csv.NewReader(file).ReadAll()
	fatal.If(t, err)
	fatal.If(t, file.Close())
	tick, label := slices.Index(rows[0], "tick"), slices.Index(rows[0], "label")
	for _, row := range rows[1:] {
		reward, known := rewards[row[tick]]
		if !known {
			t.Fatalf("tick %s has no reward", row[tick])
		}
		row[label] = strconv.FormatFloat(reward, 'g', -1, 64)
	}
	file, err = os.Create(path)
	fatal.If(t, err)
	fatal.If(t, csv.NewWriter(file).WriteAll(rows))
	fatal.If(t, file.Close())
}

func TestLogLabel_TeachesATaskAfterwards(t *testing.T) {
	dir := t.TempDir()
	folder, moments := filepath.Join(dir, "tasks"), filepath.Join(dir, "moments.csv")
	set := []string{"--set", "run.task_dir=" + folder, "--set", "log.dir=" + filepath.Join(dir, "logs")}
	explored := fastRover(t, append(set, "--strategy", "random", "--operator", "none")...)
	rewards := make(map[string]float64)
	for record, err := range openLog(t, explored).Records() {
		fatal.If(t, err)
		if record.Tick != nil {
			rewards[strconv.FormatUint(record.Tick.Index, 10)] = record.Tick.Reward
		}
	}
	if out, err := execute("log", "label", explored.Log, "--propose", "20", "--out", moments); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	labelByReward(t, moments, rewards)
	args := []string{"log", "label", explored.Log, "--labels", moments, "--save", "corner"}
	out, err := execute(append(args, set...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	task, err := taskstore.Store{Dir: folder}.Load("corner")
	fatal.If(t, err)
	if task.Origin.Afterwards != 20 {
		t.Errorf("%+v", task.Origin)
	}
	started := fastRover(t, append(set, "--start", "corner", "--operator", "none")...)
	checkVerified(t, openLog(t, started))
	if total(started.Returns) < total(explored.Returns)+100 { // of at most about 350
		t.Errorf("returns %v from the task, %v with random z", started.Returns, explored.Returns)
	}
}

func TestLogLabel_RefusesContradictoryFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "at least one of the flags"},
		{[]string{"--propose", "3", "--labels", "x.csv", "--save", "x"}, "none of the others can be"},
		{[]string{"--labels", "x.csv"}, "missing [save]"},
		{[]string{"--propose", "3", "--save", "x"}, "missing [labels]"},
	} {
		_, err := execute(append([]string{"log", "label", "run.mcap"}, c.args...)...)
		errtest.Contains(t, err, c.want)
	}
}
