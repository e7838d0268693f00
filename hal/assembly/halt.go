package assembly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"optibfm/internal/registry"
)

// HaltTasks implements registry.Halting.
func (c Config) HaltTasks(period time.Duration, now func() int64) ([]registry.HaltTask, error) {
	failsafe, err := c.Failsafe(period)
	if err != nil {
		return nil, err
	}
	var tasks []registry.HaltTask
	for i, d := range c.Devices {
		if len(failsafe[i]) == 0 { // a sensor
			continue
		}
		tasks = append(tasks, registry.HaltTask{
			Name: d.Name, Key: fmt.Sprintf("devices[%d] (%s)", i, d.Name), Line: lineOf(d),
			Halt: func(ctx context.Context) ([]string, error) { return c.haltDevice(ctx, d, now, failsafe[i]) },
		})
	}
	return tasks, nil
}

// haltDevice halts one device. It does not open servos, CAN motors and boards, because
// their drivers open only when every servo or motor answers.
func (c Config) haltDevice(
	ctx context.Context, d Device, now func() int64, failsafe []float64,
) (notes []string, err error) {
	if halt := devices[d.Driver].halt; halt != nil {
		return halt(d.Section(d.Driver), failsafe)
	}
	o := NewOpener(LocalHardware, c, now)
	defer func() { err = errors.Join(err, o.Close()) }()
	device, err := o.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(device.Halt(failsafe), device.Close())
}
