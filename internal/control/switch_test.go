package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
	"optibfm/rewardsrc"
)

// switchTo sends a file of a task and returns the status in the reply.
func (a *servedRun) switchTo(name string, file []byte) (status ipc.Status) {
	a.t.Helper()
	var out bytes.Buffer
	_ = SwitchTask(&out, a.path, name, file, true) // an error repeats status.Error
	fatal.If(a.t, json.Unmarshal(out.Bytes(), &status))
	return status
}

// belief returns the hash of the belief.
func (a *servedRun) belief() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.agent.Learner().Belief().Hash()
}

func TestServer_SwitchesTheTaskOfARobotThatIsNotStopped(t *testing.T) {
	a := serveRun(t, true)
	task := rigtest.NewTask(t, a.session, "walk")
	file := rigtest.TaskFile(t, task)
	before := a.belief()
	for i, state := range []string{"disarmed", "armed"} {
		if i > 0 {
			a.send("arm")
		}
		if got := a.switchTo("walk", file); got.Error != "" || got.State != state {
			t.Fatalf("%+v, want %s", got, state)
		}
		if got := a.belief(); got == before || got != task.Belief.Belief.Hash() {
			t.Errorf("%s: the belief is %x, want %x", state, got, task.Belief.Belief.Hash())
		}
		var next uint64
		var b ipc.TaskBelief
		var ok bool
		var err error
		rigtest.WaitUntil(rigtest.HangGuard, func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			next, b, ok, err = a.host.NextSwitch(a.beats)
			return ok || err != nil
		})
		if err != nil || next == 0 || b.Name != "walk" || b.Hash != task.Belief.Belief.Hash() {
			t.Errorf("the log gets %d, %+v, %v", next, b, err)
		}
	}
	a.send("stop")
	if got := a.switchTo("walk", file); !strings.Contains(got.Error, "reset") || got.State != "stopped" {
		t.Errorf("stopped: %+v", got)
	}
	a.send("reset")
	for range 2 { // which no one takes
		a.switchTo("walk", file)
	}
	if got := a.switchTo("walk", file); got.Error != errSwitchesWait.Error() {
		t.Errorf("the ring is full: %+v", got)
	}
}

func TestServer_RefusesATaskThatDoesNotFit(t *testing.T) {
	a := serveRun(t, true)
	own := rigtest.NewTask(t, a.session, "walk")
	changed := func(change func(*taskstore.Task)) []byte {
		task, belief := own, *own.Belief
		task.Belief = &belief
		change(&task)
		return rigtest.TaskFile(t, task)
	}
	good := rigtest.TaskFile(t, own)
	before := a.belief()
	for what, c := range map[string]struct {
		file []byte
		want string
	}{
		"model":   {changed(func(x *taskstore.Task) { x.ModelHash = "0123456789" }), "another model"},
		"prior":   {changed(func(x *taskstore.Task) { x.Belief.Basis = "0123456789abcdef" }), "controller.prior: task"},
		"offset":  {changed(func(x *taskstore.Task) { x.Belief.Offset = 2 }), "controller.offset (2"},
		"sigma":   {changed(func(x *taskstore.Task) { x.Belief.Sigma = 3 }), "controller.sigma (3"},
		"noise":   {changed(func(x *taskstore.Task) { x.Belief.Estimate = true }), "noise.estimate true"},
		"state":   {changed(func(x *taskstore.Task) { x.Belief.Noise.Count = -1 }), "impossible noise"},
		"no file": {changed(func(x *taskstore.Task) { x.Belief = nil }), "has no belief"},
		"damaged": {append(good[:len(good)-1:len(good)-1], good[len(good)-1]^1), "checksum"},
		"empty":   {nil, "want 1 to"},
		"large":   {make([]byte, maxTaskBytes(a.session.Shape())+1), "want 1 to"},
	} {
		if got := a.switchTo("walk", c.file); !strings.Contains(got.Error, c.want) {
			t.Errorf("%s: %+v, want %q", what, got, c.want)
		}
	}
	for _, name := range []string{"", "../walk", "-walk", strings.Repeat("w", 101)} {
		if got := a.switchTo(name, good); !strings.Contains(got.Error, "not a name") {
			t.Errorf("%q: %+v", name, got)
		}
	}
	if a.belief() != before {
		t.Error("a refused switch changed the belief")
	}
}

func TestServer_RefusesASwitchWithoutAStrategyThatFollowsTheBelief(t *testing.T) {
	a := serveRun(t, true)
	file := rigtest.TaskFile(t, rigtest.NewTask(t, a.session, "walk"))
	a.session.File.Controller.Strategy = controller.Random
	if got := a.switchTo("walk", file); !strings.Contains(got.Error, "controller.strategy: random") {
		t.Errorf("%+v", got)
	}
}

// A caller that announces more than it sends delays others only by its time limit.
func TestServer_IncompleteTaskDoesNotBlockOthers(t *testing.T) {
	a := serveRun(t, true)
	c, err := net.Dial("unix", a.path)
	fatal.If(t, err)
	defer c.Close()
	fatal.If(t, errtest.Of(fmt.Fprint(c, "switch walk 1000\nnot all")))
	if got := a.send("stop"); got.State != "stopped" {
		t.Errorf("%+v", got)
	}
	reply, _ := io.ReadAll(c)
	if !bytes.Contains(reply, []byte("reading the task walk")) {
		t.Errorf("%s", reply)
	}
}

// The log of a run with a switch, recorded by the host's half, verifies in every tick.
func TestControl_SwitchIsReplayed(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) { f.Run.EpisodeS = 0 })
	r := newRun(t, s, nil)
	h := r.newIntake(&endlessSource{label: rewardsrc.Label{
		Kind: rewardsrc.Value, Value: 0.5, Tick: rewardsrc.NoTick, At: rewardsrc.Monotonic(),
	}})
	log, path, err := s.CreateLog(r.robot.Spec(), "test", false)
	fatal.If(t, err)
	h.Recorder.Log = log
	state, _, err := r.host.NewestState()
	fatal.If(t, err)
	h.Recorder.Snapshot(flightlog.Snapshot{Hash: state.Hash, State: state.Belief, Noise: state.Noise})
	steps := func(n int) {
		for range n {
			r.host.HostBeat.Add(1)
			fatal.If(t, r.silentBeat())
			fatal.If(t, h.TakeTicks())
			state, _, err := r.host.NewestState()
			fatal.If(t, err)
			fatal.If(t, errtest.Of(r.planner.Plan(state, r.plan)))
			fatal.If(t, r.host.Publish(r.plan))
		}
	}
	task := rigtest.NewTask(t, s, "walk")
	file := rigtest.TaskFile(t, task)
	server := r.taskSwitch()
	switchTask := func() {
		done := make(chan error)
		go func() { done <- server.switchTask(fmt.Sprint("walk ", len(file)), bytes.NewReader(file)) }()
		rigtest.WaitUntil(rigtest.HangGuard, func() bool { return r.mailbox.request.Load()>>8 != r.mailbox.answered.Load() })
		steps(1)
		fatal.If(t, <-done)
	}
	steps(30)
	switchTask()
	steps(40)
	switchTask()
	steps(10)
	fatal.If(t, log.Close())
	found, err := flightlog.Open(path)
	fatal.If(t, err)
	defer found.Close()
	result, err := flightlog.Verify(found)
	fatal.If(t, err)
	if !result.OK() || len(result.Gaps) != 0 || result.Verified != 82 {
		t.Errorf("%d verified, gaps %v, first difference %v", result.Verified, result.Gaps, result.First)
	}
	names := []string{}
	for record, err := range found.Records() {
		fatal.If(t, err)
		if e := record.Event; e != nil && e.Fields["task"] != "" {
			names = append(names, e.Fields["task"]+" "+e.Fields["tick"])
		}
	}
	if got := strings.Join(names, ", "); got != "walk 30, walk 71" {
		t.Errorf("the log has the switches %s", got)
	}
}

func TestControl_TickOfASwitchAllocatesNothing(t *testing.T) {
	s := rigtest.NewSession(t, nil)
	r := newRun(t, s, nil)
	r.ticks(50)
	task := rigtest.NewTask(t, s, "walk")
	b := &ipc.TaskBelief{Name: "walk", State: make([]float64, s.Shape().StateLen()), Hash: task.Belief.Belief.Hash()}
	task.Belief.Belief.State(b.State)
	wantNoAllocations(t, func() { // twice, as the ring has room for
		fatal.If(t, r.switchTask(b))
		r.ticks(1)
	})
}

// hosted returns a run whose host may ask for tasks.
func hosted(t *testing.T) (*servedRun, *ipc.TaskChanger) {
	t.Helper()
	a := serveRun(t, true)
	file, theirs, err := ipc.Sockets("tasks")
	fatal.If(t, err)
	ours, err := net.FileConn(file)
	fatal.If(t, err)
	fatal.If(t, file.Close())
	change, err := ipc.NewTaskChanger(theirs)
	fatal.If(t, err)
	done := make(chan struct{})
	served := a.taskSwitch()
	served.pause = 0
	go func() {
		defer close(done)
		served.serveHost(ours)
	}()
	t.Cleanup(func() {
		fatal.If(t, change.Close())
		<-done
		_ = ours.Close()
	})
	return a, change
}

func TestTaskSwitch_HostSwitchesByTheRulesOfTheSocket(t *testing.T) {
	a, change := hosted(t)
	task := rigtest.NewTask(t, a.session, "walk")
	file := rigtest.TaskFile(t, task)
	a.send("arm")
	fatal.If(t, change.Switch("walk", file))
	if got := a.belief(); got != task.Belief.Belief.Hash() {
		t.Errorf("the belief is %x, want that of the task", got)
	}
	if err := change.Switch("walk", append(file, make([]byte, 2<<20)...)); err == nil ||
		!strings.Contains(err.Error(), "bytes") {
		t.Errorf("a file that is too large: %v", err)
	}
	fatal.If(t, change.New())
	prior, err := a.session.File.Controller.NewBelief(a.session.Shape().Latent)
	fatal.If(t, err)
	if got := a.belief(); got != prior.Hash() {
		t.Errorf("after a new task the belief is %x, want the prior", got)
	}
	for range 2 {
		a.mu.Lock()
		_, _, ok, err := a.host.NextSwitch(a.beats)
		a.mu.Unlock()
		if !ok || err != nil {
			t.Errorf("the log gets no switch: %v", err)
		}
	}
	a.send("stop")
	errtest.Contains(t, change.New(), "reset", "stopped")
}

func TestTaskSwitch_HostMayOnlySwitch(t *testing.T) {
	a := serveRun(t, true)
	for _, command := range []string{"arm", "reset", "stop", "disarm", "status", ""} {
		ours, theirs := net.Pipe()
		go a.taskSwitch().serveHost(ours)
		go func() { _, _ = io.WriteString(theirs, command+"\n") }()
		var refusal string
		fatal.If(t, json.NewDecoder(theirs).Decode(&refusal))
		if state := a.send("status").State; refusal != errNotForHost.Error() || state != "disarmed" {
			t.Errorf("%s: %q, %s", command, refusal, state)
		}
		fatal.If(t, theirs.Close())
	}
}

func TestTaskSwitch_NewTaskNeedsARunThatFollowsItsBelief(t *testing.T) {
	a := serveRun(t, true)
	if got := a.send("new"); got.Error != "" {
		t.Errorf("%+v", got)
	}
	a.session.File.Controller.Strategy = controller.Random
	if got := a.send("new"); !strings.Contains(got.Error, "does not follow its belief") {
		t.Errorf("%+v", got)
	}
}

// The control process does not collect garbage below its memory limit.
func TestServer_FloodOfTasksTakesLittleMemory(t *testing.T) {
	a := serveRun(t, true)
	size := maxTaskBytes(a.session.Shape())
	file := bytes.Repeat([]byte("x"), size)
	request := func(s *taskSwitch, n int) error {
		_, err := s.execute(fmt.Sprint(ipc.SwitchWord, "walk ", n), bytes.NewReader(file))
		return err
	}
	for _, limit := range []rate.Limit{rate.Inf, 0} {
		s := a.taskSwitch()
		s.limit = rate.NewLimiter(limit, 1)
		if err := request(s, size); err == nil || !strings.Contains(err.Error(), "header") { // it makes the buffer
			t.Fatal(err)
		}
		const requests = 40
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range requests {
			err := request(s, size)
			if tooSoon := errors.Is(err, errTooSoon); err == nil || tooSoon != (limit == 0) {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / requests; n > 8<<10 {
			t.Errorf("each request of %d bytes allocates %d", size, n)
		}
	}
	errtest.Contains(t, request(a.taskSwitch(), 1<<20), "want 1 to", "1 MiB")
}

func TestControl_SendsTheBeliefBeforeAChangedTaskOnce(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) { f.Controller = controller.PersonConfig() })
	r := newRun(t, s, nil)
	r.ticks(2)
	learner, random := r.agent.Learner(), rand.New(rand.NewPCG(1, 2))
	phi, obs := make([]float64, s.Shape().Latent), make([]float32, s.Shape().Obs)
	for tick, sign := uint64(1000), 1.0; !learner.Changed() && tick < 200_000; tick += 1000 {
		for i := range phi {
			phi[i] = random.NormFloat64()
		}
		if tick == 60_000 {
			sign = -1
		}
		learner.Observe(tick, int64(tick), phi, obs)
		learner.ApplyTo(rewardsrc.Label{Kind: rewardsrc.Value, Value: math.Copysign(1, sign*phi[0])}, tick, tick)
		for i := range uint64(100) {
			learner.Settle(tick + i)
		}
	}
	r.ticks(1) // decides
	hash := learner.Belief().Hash()
	for range 3 {
		r.host.HostBeat.Add(1)
		fatal.If(t, r.silentBeat())
	}
	last := controller.NewTick(s.Shape())
	r.takeRecords(last)
	_, b, ok, err := r.host.NextSwitch(last.Index)
	fatal.If(t, err)
	if !ok || b.Name != ipc.FormerTask || b.Hash != hash || !last.Flags.Has(controller.FlagKeepable) {
		t.Fatalf("sent %v: %q, hash %x, want %x; flags %b", ok, b.Name, b.Hash, hash, last.Flags)
	}
	if _, _, ok, err = r.host.NextSwitch(last.Index); ok || err != nil {
		t.Errorf("sent twice, or %v", err)
	}
}
