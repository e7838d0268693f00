package flightlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"optibfm/controller"
	"optibfm/hal"
)

// FormatVersion is the version of the logs that this package writes. A reader
// accepts the versions from 5 on and refuses newer ones.
//
//	5  the robot may stand still while it asks, and requests before the first label do not count
//	6  the robot may move to a start or rest pose: its state then teaches nothing
//	7  a changed task is called on evidence, and the operator can keep the former one
//	8  the appraisal is an interval, and a learnt task is predicted better than by a constant
//	9  labels have no share of their weight
//	10 each further label of one state is less evidence of a changed task
//	11 a changed task needs more evidence, the more labels there were
//	12 with controller.offset, the belief learns labels on the scale controller.labels
//	13 a learnt task also needs expected labels above the middle of their range
//	14 a label is less evidence of a changed task, the more alike successive surprises are
const FormatVersion = 14

// oldestFormat is the first version that a reader accepts.
const oldestFormat = 5

// formatWithEvidence is the first version whose ticks have the evidence of a changed task.
const formatWithEvidence = 7

// formatWithInterval is the first version whose appraisal is an interval.
const formatWithInterval = 8

// formatWithNews is the first version in which repeated labels of a state are less evidence.
const formatWithNews = 10

// formatWithGrowth is the first version in which the limit of the evidence grows with the number of labels.
const formatWithGrowth = 11

// formatWithShortfall is the first version whose ticks have the shortfall of expected labels. In
// earlier ones it is 0 and does not prevent a learnt task.
const formatWithShortfall = 13

// formatWithCorrelation is the first version in which labels with correlated surprises are less evidence.
const formatWithCorrelation = 14

// maxDim is the largest dimension in a log.
const maxDim = 1 << 16

// Clock is the clock of the times in a log. It maps them to the wall clock.
type Clock struct {
	Simulated bool  // lockstep: simulated nanoseconds, not CLOCK_MONOTONIC
	MonoNS    int64 // a moment on that clock
	WallNS    int64 // the same moment on the wall clock, ns since 1970
}

// Wall returns the wall clock at t, ns since 1970.
func (c Clock) Wall(t int64) int64 { return c.WallNS + (t - c.MonoNS) }

// logTime returns Wall as MCAP stores it, at least 0.
func (c Clock) logTime(t int64) uint64 { return uint64(max(0, c.Wall(t))) }

// Metadata describes the run.
type Metadata struct {
	Format    int               // version of the log's format; 0 when writing: FormatVersion
	Program   string            // version of the program
	ModelHash string            // hash of the model bundle
	Posture   string            // the granted real-time posture, as text
	Robot     hal.Spec          // channels and nominal period
	Shape     controller.Shape  // dimensions of every tick
	Clock     Clock             // clock of the times
	Control   controller.Config // input of the replay
	Config    []byte            // the whole configuration, YAML; may be nil
	Extra     map[string]string // further values, such as the name of the task
}

// note adds a text to a copy of Extra.
func (m *Metadata) note(key, text string) {
	extra := map[string]string{key: text}
	maps.Copy(extra, m.Extra)
	m.Extra = extra
}

// Names inside the file.
const (
	profile        = "optibfm"
	library        = "optibfm " // before the program's version, in the header
	metadataName   = "optibfm"
	extraName      = "optibfm.extra"
	preambleName   = "optibfm.preamble"
	configFile     = "config.yaml"
	controllerFile = "controller.json"
	mediaYAML      = "application/yaml"
	mediaJSON      = "application/json"
	keyFormat      = "format"
	keyProgram     = "program"
	keyModelHash   = "model_hash"
	keyPosture     = "posture"
	keyRobot       = "robot"
	keyObs         = "obs"
	keyAction      = "action"
	keyObsChans    = "obs_channels"
	keyActionChans = "action_channels"
	keyLatent      = "latent"
	keyNuisance    = "offset" // dimensions of the belief that are not of the task
	keyPeriod      = "period_ns"
	keyClock       = "clock"
	keyMono        = "mono_ns"
	keyWall        = "wall_ns"
	// keyUnverifiable in Extra names the parts for a replay that the original of a recovered log
	// lacked.
	keyUnverifiable = "unverifiable"
	keyPreamble     = "crc32" // checksum of the file before the record preambleName
	clockMonotonic  = "monotonic"
	clockSimulated  = "simulated"
)

// preambleSum formats a checksum for the record preambleName.
func preambleSum(sum uint32) string { return fmt.Sprintf("%08x", sum) }

// check reports invalid metadata.
func (m *Metadata) check() error {
	s := m.Shape
	if s.Obs < 1 || s.Action < 1 || s.Latent < 1 || max(s.Obs, s.Action, s.Latent) > maxDim ||
		s.Nuisance < 0 || s.Nuisance > maxDim {
		return fmt.Errorf("shape: found %+v; every size must be 1 to %d, nuisance 0 or more", s, maxDim)
	}
	if n := len(m.Robot.Obs); n != 0 && n != s.Obs {
		return fmt.Errorf("robot: found %d observation channels for %d observations; describe each, or none", n, s.Obs)
	}
	if n := len(m.Robot.Action); n != 0 && n != s.Action {
		return fmt.Errorf("robot: found %d action channels for %d actions; describe each, or none", n, s.Action)
	}
	if m.Robot.Period <= 0 {
		return fmt.Errorf("robot: found a period of %v; set the control period", m.Robot.Period)
	}
	return nil
}

// encode returns the metadata record.
func (m *Metadata) encode() (map[string]string, error) {
	obs, err := json.Marshal(m.Robot.Obs)
	if err != nil {
		return nil, fmt.Errorf("observation channels: %w", err)
	}
	action, err := json.Marshal(m.Robot.Action)
	if err != nil {
		return nil, fmt.Errorf("action channels: %w", err)
	}
	clock := clockMonotonic
	if m.Clock.Simulated {
		clock = clockSimulated
	}
	format := m.Format
	format = cmp.Or(format, FormatVersion)
	return map[string]string{
		keyFormat:      strconv.Itoa(format),
		keyProgram:     m.Program,
		keyModelHash:   m.ModelHash,
		keyPosture:     m.Posture,
		keyRobot:       m.Robot.Name,
		keyObs:         strconv.Itoa(m.Shape.Obs),
		keyAction:      strconv.Itoa(m.Shape.Action),
		keyLatent:      strconv.Itoa(m.Shape.Latent),
		keyNuisance:    strconv.Itoa(m.Shape.Nuisance),
		keyObsChans:    string(obs),
		keyActionChans: string(action),
		keyPeriod:      strconv.FormatInt(int64(m.Robot.Period), 10),
		keyClock:       clock,
		keyMono:        strconv.FormatInt(m.Clock.MonoNS, 10),
		keyWall:        strconv.FormatInt(m.Clock.WallNS, 10),
	}, nil
}

// decodeMetadata is the inverse of encode.
func decodeMetadata(kv map[string]string) (Metadata, error) {
	var errs []error
	number := func(key string) int64 {
		n, err := strconv.ParseInt(kv[key], 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: found %.40q, want a number", key, kv[key]))
		}
		return n
	}
	channels := func(key string, dst *[]hal.Channel) {
		if err := json.Unmarshal([]byte(kv[key]), dst); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	format := number(keyFormat)
	if len(errs) == 0 && (format < oldestFormat || format > FormatVersion) {
		return Metadata{}, fmt.Errorf("%w (found %d, supported %d to %d); use the program's version that wrote it",
			ErrVersion, format, oldestFormat, FormatVersion)
	}
	m := Metadata{
		Format:    int(format),
		Program:   kv[keyProgram],
		ModelHash: kv[keyModelHash],
		Posture:   kv[keyPosture],
		Robot:     hal.Spec{Name: kv[keyRobot], Period: time.Duration(number(keyPeriod))},
		Shape: controller.Shape{
			Obs: int(number(keyObs)), Action: int(number(keyAction)), Latent: int(number(keyLatent)),
			Nuisance: int(number(keyNuisance)),
		},
		Clock: Clock{
			Simulated: kv[keyClock] == clockSimulated, MonoNS: number(keyMono), WallNS: number(keyWall),
		},
	}
	channels(keyObsChans, &m.Robot.Obs)
	channels(keyActionChans, &m.Robot.Action)
	if err := errors.Join(errs...); err != nil {
		return Metadata{}, err
	}
	return m, m.check()
}
