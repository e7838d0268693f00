package mit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal/mit"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// Answers that arrive after the next command was sent.
const late, timely = true, false

// The motors are moved by hand while answers that show their former positions are late.
func TestDevice_ReadsPresentPositionAfterLateAnswers(t *testing.T) {
	for name, answers := range map[string][]bool{
		"one":            {late},
		"both of a read": {late, late},
		"third":          {late, timely, late},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, c mit.Config) {
				motors := start(t, &c)
				d := open(t, c)
				sample := make([]float64, 12)
				motors.Delay(ankle, answers...)
				_, _ = d.Read(sample)
				from := rand.New(rand.NewPCG(7, 11))
				for range 3 {
					places := pose(motors, from)
					fatal.If(t, errtest.Of(d.Read(sample)))
					if math.Abs(sample[9]-places[ankle]) > 4e-4 {
						t.Errorf("read %.3f rad, the motor is at %.3f rad", sample[9], places[ankle])
					}
				}
			})
		})
	}
}

// The answer about a register has the bytes of a position at the end of the range.
func TestDevice_ArmIgnoresLateAnswerAboutRegister(t *testing.T) {
	c := legs(mit.Damiao)
	motors := start(t, &c)
	d := open(t, c)
	places := pose(motors, rand.New(rand.NewPCG(7, 11)))
	motors.Delay(hip, timely, late) // of writing and reading the timeout
	fatal.If(t, d.Arm())
	wantHeld(t, motors, places)
}

// Arm must not take the answer to a Write before it for the answer to Enter.
func TestDevice_ArmAwaitsAnswerToEnter(t *testing.T) {
	c := legs(mit.Original)
	motors := start(t, &c)
	d := open(t, c)
	pose(motors, rand.New(rand.NewPCG(3, 5)))
	motors.Delay(hip, late)
	frames := motors.Frames(hip)
	fatal.If(t, d.Write(disarmed))
	for motors.Frames(hip) == frames {
		time.Sleep(time.Millisecond)
	}
	places := pose(motors, rand.New(rand.NewPCG(7, 11)))
	fatal.If(t, d.Arm())
	wantHeld(t, motors, places)
}

func TestDevice_ReadsAgainAfterBusOff(t *testing.T) {
	c := legs("")
	motors := start(t, &c)
	d := open(t, c)
	motors.Mute(hip, -1)
	motors.Bus.Report(unix.CAN_ERR_BUSOFF)
	sample := make([]float64, 12)
	errtest.NotNil(t, errtest.Of(d.Read(sample)))
	motors.Mute(hip, 0)
	motors.Bus.Report(unix.CAN_ERR_RESTARTED)
	fatal.If(t, errtest.Of(d.Read(sample)))
}
