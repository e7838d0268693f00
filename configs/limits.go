package configs

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"optibfm/controller"
	"optibfm/hal/bno055"
	"optibfm/hal/bridge"
	"optibfm/hal/composite"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/mit"
	"optibfm/hal/pca9685"
	"optibfm/hal/rover"
	"optibfm/hal/serial"
	"optibfm/hal/unitree"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/scripted"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// limit is the range of a number, or the choices of a string. [File.Validate]
// and the JSON Schema both read it. Its default is in [Default] and its unit in
// the key.
type limit struct {
	min, max float64 // ±math.MaxFloat64: no bound, but finite
	above    bool    // min itself is outside
	choices  []string
}

func within(low, high float64) limit    { return limit{min: low, max: high} }
func above(low, high float64) limit     { return limit{min: low, max: high, above: true} }
func atLeast(low float64) limit         { return within(low, math.MaxFloat64) }
func oneOf(choices ...string) limit     { return limit{choices: choices} }
func finite() limit                     { return within(-math.MaxFloat64, math.MaxFloat64) }
func (l limit) hasMin() bool            { return l.min > -math.MaxFloat64 }
func (l limit) hasMax() bool            { return l.max < math.MaxFloat64 }
func (l limit) contains(x float64) bool { return x >= l.min && x <= l.max && (!l.above || x > l.min) }

func (l limit) String() string {
	switch {
	case l.min == l.max:
		return fmt.Sprintf("%g", l.min)
	case !l.hasMin():
		return "a finite number"
	case !l.hasMax() && l.above:
		return fmt.Sprintf("a finite number above %g", l.min)
	case !l.hasMax():
		return fmt.Sprintf("a finite number of at least %g", l.min)
	case l.above:
		return fmt.Sprintf("a value above %g, at most %g", l.min, l.max)
	}
	return fmt.Sprintf("a value from %g to %g", l.min, l.max)
}

// limits has every numeric key and every key with choices; [] stands for each
// element of a list, * for each name of a table, and "" among the choices or 0 in a range for a default.
// The package of a key may narrow its range, depending on other keys.
var limits = allLimits()

func allLimits() map[string]limit {
	all := robotLimits()
	maps.Copy(all, unitreeLimits())
	maps.Copy(all, deviceLimits())
	maps.Copy(all, controlLimits())
	maps.Copy(all, operatorLimits())
	maps.Copy(all, scriptedLimits())
	maps.Copy(all, map[string]limit{
		"version":                           within(Version, Version),
		"model.groups[].terms[].steps":      within(0, 1000),
		"model.groups[].terms[].skip":       within(0, 1000),
		"model.groups[].terms[].scale":      finite(),
		"model.backend":                     oneOf(BackendNative, BackendTensorFlow),
		"model.tensorflow.intra_op_threads": within(0, 1024),
		"model.tensorflow.inter_op_threads": within(-1, 1024),
		"log.flush_ms":                      within(1, 60_000),
		"log.snapshot_s":                    within(0.1, 3600),
		"log.keep_gb":                       within(0, 1e6),
		"log.min_free_gb":                   within(0, 1e6),
		"log.frames_hz":                     within(0, 60),
		"log.frames_days":                   within(0, 36_500),
		"run.duration_s":                    within(0, 1e9),
		"run.episodes":                      within(0, 1e9),
		"run.episode_s":                     within(0, 1e9),
		"run.seed":                          atLeast(0),
		"run.host_timeout_s":                within(0.05, 60),
		"run.simulator_wait_s":              within(0, 3600),
	})
	return all
}

func robotLimits() map[string]limit {
	var tasks []string
	for _, t := range rover.Tasks() {
		tasks = append(tasks, t.Name)
	}
	hour := within(0, 3_600_000)
	return map[string]limit{
		"robot.driver":                             oneOf(DriverRover, DriverBridge, DriverComposite, DriverUnitree),
		"robot.hold":                               oneOf(controller.HoldFailsafe, controller.HoldLast, ""),
		"robot.rover.task":                         oneOf(tasks...),
		"robot.rover.seed":                         atLeast(0),
		"robot.rover.period_ms":                    within(1, 1000),
		"robot.rover.arena_m":                      within(0.1, 1000),
		"robot.rover.radius_m":                     atLeast(0.001),
		"robot.rover.track_m":                      within(0.001, 100),
		"robot.rover.axle_m":                       atLeast(0),
		"robot.rover.max_speed_mps":                within(0.001, 100),
		"robot.rover.motor_lag_ms":                 within(0, 10_000),
		"robot.rover.slip_std":                     within(0, 1),
		"robot.rover.noise.position_m":             atLeast(0),
		"robot.rover.noise.heading_rad":            within(0, math.Pi),
		"robot.rover.noise.speed_mps":              within(0, 100),
		"robot.rover.noise.yaw_rate_radps":         within(0, 100),
		"robot.bridge.mode":                        oneOf(bridge.Lockstep, bridge.Free, ""),
		"robot.bridge.timeout_ms":                  hour,
		"robot.bridge.stale_ms":                    hour,
		"robot.bridge.deadman_ms":                  hour,
		"robot.bridge.start_timeout_ms":            hour,
		"robot.composite.i2c_timeout_ms":           within(10, 1000),
		"robot.composite.history":                  atLeast(0),
		"robot.composite.odometry.scale":           finite(),
		"robot.composite.odometry.track_m":         atLeast(0),
		"robot.composite.odometry.start_x_m":       finite(),
		"robot.composite.odometry.start_y_m":       finite(),
		"robot.composite.observation[].scale":      finite(),
		"robot.composite.observation[].offset":     finite(),
		"robot.composite.observation[].min":        finite(),
		"robot.composite.observation[].max":        finite(),
		"robot.composite.action[].scale":           finite(),
		"robot.composite.action[].offset":          finite(),
		"robot.composite.action[].min":             finite(),
		"robot.composite.action[].max":             finite(),
		"robot.composite.action[].max_rate":        atLeast(0),
		"robot.composite.action[].default":         finite(),
		"robot.composite.action[].measured_scale":  finite(),
		"robot.composite.action[].measured_offset": finite(),
		"robot.composite.action[].failsafe":        finite(),
		"robot.composite.action[].disarmed":        finite(),
		"robot.composite.action[].halt":            oneOf(composite.HaltHold, composite.HaltFailsafe, ""),
	}
}

func unitreeLimits() map[string]limit {
	all := map[string]limit{}
	for key, l := range map[string]limit{
		"model":          oneOf(unitree.Go2, unitree.G1, ""),
		"channels":       oneOf(unitree.Absolute, unitree.Relative),
		"domain":         within(0, 232),
		"kp[]":           above(0, 500),
		"kd[]":           within(0, 50),
		"damping_kd[]":   above(0, 50),
		"pose[]":         within(-math.Pi, math.Pi),
		"action_scale[]": above(0, 10),
		"max_rate[]":     above(0, 50),
		"max_torque[]":   above(0, 200),
		"deadman_ms":     within(40, 2000),
		"standby_ms":     within(10, 2000),
		"stale_ms":       within(6, 2000),
		"mode_machine":   within(0, 255),
		"other_writers":  oneOf(unitree.Refuse, unitree.Silent),
		"max_tilt_deg":   within(0, 180),
		"remote.use":     oneOf(unitree.Required, unitree.Optional),
		"fifo_priority":  within(0, 98),
	} {
		all["robot.unitree."+key] = l
	}
	for _, level := range []string{"warn", "refuse", "stop"} {
		all["robot.unitree.battery."+level+"_percent"] = within(0, 100)
		all["robot.unitree.temperature."+level+"_c"] = within(0, 150)
	}
	return all
}

func deviceLimits() map[string]limit {
	minute, second := within(0, 60_000), within(0, 1000)
	devices := map[string]limit{
		"driver":                   oneOf(deviceDrivers()...),
		"stale_ms":                 minute,
		"frozen_ticks":             within(0, 1e6),
		"bno055.address":           within(0, 0x29),
		"bno055.mode":              oneOf(bno055.IMU, bno055.NDOF, ""),
		"bno055.arm_calibration":   within(0, 3),
		"mpu6050.address":          within(0, 0x69),
		"mpu6050.gyro_dps":         within(0, 2000),
		"mpu6050.accel_g":          within(0, 16),
		"mpu6050.bandwidth_hz":     within(0, 188),
		"mpu6050.rate_hz":          within(0, 1000),
		"pca9685.address":          within(0, 0x77),
		"pca9685.frequency_hz":     within(0, 3051),
		"pca9685.oscillator_hz":    within(0, 50e6),
		"pca9685.when_disarmed":    oneOf(pca9685.Off, pca9685.Pulses, ""),
		"pca9685.channels[].pin":   within(0, 15),
		"pca9685.channels[].kind":  oneOf(pca9685.Pulse, pca9685.Duty, ""),
		"mcu.timeout_ms":           minute,
		"mcu.stale_ms":             minute,
		"mcu.deadman_ms":           minute,
		"mcu.start_timeout_ms":     minute,
		"dynamixel.timeout_ms":     second,
		"dynamixel.deadman_ms":     within(0, 2540),
		"dynamixel.servos[].id":    within(0, dynamixel.MaxID),
		"dynamixel.servos[].mode":  oneOf(append(dynamixel.Modes(), "")...),
		"dynamixel.servos[].model": oneOf(append(dynamixel.Models(), "")...),
		"feetech.timeout_ms":       second,
		"feetech.servos[].id":      within(0, feetech.MaxID),
		"feetech.servos[].mode":    oneOf(feetech.Position, feetech.Velocity, ""),
		"mit.timeout_ms":           second,
		"mit.deadman_ms":           within(0, 10_000),
		"mit.dialect":              oneOf(mit.Original, mit.Damiao, ""),
		"mit.motors[].id":          within(1, 0x7F),
		"mit.motors[].reply_id":    within(0, 0x7FF),
		"mit.motors[].mode":        oneOf(mit.Position, mit.Velocity, mit.Torque, mit.Impedance, ""),
		"mit.motors[].kp":          atLeast(0),
		"mit.motors[].kd":          atLeast(0),
		"mit.motors[].p_max":       above(0, math.MaxFloat64),
		"mit.motors[].v_max":       above(0, math.MaxFloat64),
		"mit.motors[].t_max":       above(0, math.MaxFloat64),
		"mit.motors[].kp_max":      atLeast(0),
		"mit.motors[].kd_max":      atLeast(0),
	}
	all := map[string]limit{}
	for _, driver := range []string{"mcu", "dynamixel", "feetech"} {
		devices[driver+".port.baud"] = within(0, 12_000_000)
		devices[driver+".port.parity"] = oneOf(serial.Parities()...)
	}
	for key, l := range devices {
		all["robot.composite.devices[]."+key] = l
	}
	return all
}

func controlLimits() map[string]limit {
	all := map[string]limit{
		"controller.strategy":                 oneOf(controller.Strategies()...),
		"controller.candidates":               within(0, 65_536),
		"controller.replan_every_ticks":       atLeast(0),
		"controller.max_plan_age_ticks":       atLeast(1),
		"controller.seed":                     atLeast(0),
		"controller.fixed_z[]":                finite(),
		"controller.preset":                   oneOf(controller.Presets()...),
		"controller.prior":                    oneOf(controller.Priors()...),
		"controller.offset":                   within(0, 1e6),
		"controller.noise.floor":              within(0, 1e6),
		"controller.noise.freedom":            within(0, 1e6),
		"controller.draw.scale":               within(0, 1e3),
		"controller.draw.held":                within(0, 1),
		"controller.draw.hold_ticks":          atLeast(1),
		"controller.draw.dither":              within(0, 1e3),
		"controller.sigma":                    within(1e-6, 1e6),
		"controller.lambda":                   within(1e-9, 1e9),
		"controller.rho":                      above(0, 1),
		"controller.robust":                   within(0, 1e6),
		"controller.beta.schedule":            oneOf(controller.Constant, controller.Theory, controller.Misspecified),
		"controller.beta.value":               atLeast(0),
		"controller.beta.s":                   finite(),
		"controller.beta.noise":               finite(),
		"controller.beta.delta":               finite(),
		"controller.beta.zeta":                finite(),
		"controller.beta.l":                   finite(),
		"controller.gradient.steps":           within(1, 1000),
		"controller.gradient.learning_rate":   above(0, 10),
		"controller.gate.kappa":               atLeast(0),
		"controller.gate.requests_per_minute": within(0, 10_000),
		"controller.gate.labels_per_minute":   within(0, 1000),
		"controller.gate.timeout_s":           above(0, 3600),
		"controller.gate.backoff_s":           within(0, 86_400),
		"controller.gate.backoff_max_s":       within(0, 86_400),
		"controller.gate.pause":               oneOf(controller.PauseHold, ""),
		"controller.credit.answers":           oneOf(controller.AnswerMoments()...),
		"controller.credit.delay_s":           within(0, 600),
		"controller.credit.width_s":           within(0, 600),
		"controller.credit.held.delay_s":      within(0, 600),
		"controller.credit.held.width_s":      within(0, 600),
		"controller.credit.compare_s":         within(0, 600),
		"controller.guard.max_bad_ticks":      within(0, 1000),
		"controller.explore.within_deg":       within(0, 80),
		"controller.explore.turn_deg_per_s":   within(0, 36_000),
		"loop.period_ms":                      within(0.05, 60_000),
		"loop.fifo_priority":                  within(0, 98),
		"loop.cpus[]":                         within(0, 1023),
		"loop.timer_slack_ns":                 atLeast(0),
		"loop.max_missed_ticks":               atLeast(rtloop.NoLimit),
		"loop.memory_limit_mib":               within(16, 1<<24),
		"loop.posture":                        oneOf(rtloop.Strict, rtloop.Warn),
		"loop.watchdog_ms":                    within(0, 3_600_000),
		"safety.arm":                          oneOf(ArmAutomatic, ArmOperator),
		"safety.after_stop":                   oneOf(AfterStopEnd, AfterStopHold),
		"safety.max_sample_age_ms":            within(0, 60_000),
		"safety.frozen_ticks":                 within(0, 1e9),
		"safety.limits[].min":                 finite(),
		"safety.limits[].max":                 finite(),
	}
	for _, motion := range []string{"safety.start.", "safety.rest."} {
		maps.Copy(all, map[string]limit{
			motion + "pose" + anyName: finite(),
			motion + "ramp_s":         within(0.1, 60),
			motion + "settle_s":       within(0, 60),
			motion + "blend_s":        within(0.1, 60),
			motion + "tolerance":      above(0, 1),
			motion + "follow_s":       within(0.05, 60),
			motion + "unmeasured":     oneOf(controller.Accepted, ""),
		})
	}
	return all
}

func operatorLimits() map[string]limit {
	value, refractory, reaction := within(-1000, 1000), within(0, 5000), within(0, 2000)
	all := map[string]limit{
		"operator.source": oneOf(SourceScripted, SourceKeyboard, SourceConsole, SourceEvdev, SourceGPIO, SourceWeb,
			SourceRemote, SourceNone),
		"operator.label_mode":             oneOf(ModeAny, ModePerRequest, ModeEvents, ModeContinuous),
		"operator.keyboard.good_value":    value,
		"operator.keyboard.neutral_value": value,
		"operator.keyboard.bad_value":     value,
		"operator.keyboard.refractory_ms": refractory,
		"operator.keyboard.reaction_ms":   reaction,
		"operator.evdev.axis.rest":        oneOf(evdev.Rests()...),
		"operator.evdev.axis.dead_zone":   within(0.01, 0.9),
		"operator.gpio.bias":              oneOf(gpio.Biases()...),
		"operator.gpio.debounce_ms":       within(0, 1000),
		"operator.web.tls":                oneOf(web.TLSChoices()...),
		"operator.web.good_value":         value,
		"operator.web.bad_value":          value,
		"operator.web.sample_ms":          within(100, 10_000),
		"operator.web.refractory_ms":      refractory,
		"operator.web.reaction_ms":        reaction,
		"operator.web.max_late_s":         within(0.1, 60),
		"operator.view.width":             within(16, 4096),
		"operator.view.height":            within(16, 4096),
		"operator.view.rate_hz":           within(0.1, 60),
		"operator.view.delay_ms":          within(0, 10_000),
	}
	for _, source := range []string{"evdev", "gpio", "remote"} {
		labels := "operator." + source + ".labels."
		all[labels+"good_value"] = value
		all[labels+"bad_value"] = value
		all[labels+"refractory_ms"] = refractory
		all[labels+"reaction_ms"] = reaction
		all[labels+"hold_after_ms"] = within(0, 10_000)
		all[labels+"interval_ms"] = within(20, 10_000)
		all[labels+"weight"] = above(0, 1)
	}
	return all
}

func scriptedLimits() map[string]limit {
	var modes []string
	for _, m := range scripted.Modes() {
		modes = append(modes, string(m))
	}
	return map[string]limit{
		"operator.scripted.mode":                oneOf(modes...),
		"operator.scripted.delay_s":             within(0, 60),
		"operator.scripted.reaction_min_s":      within(0, 60),
		"operator.scripted.reaction_max_s":      within(0, 60),
		"operator.scripted.interval_s":          within(0, 3600),
		"operator.scripted.memory_s":            within(0, 3600),
		"operator.scripted.relative":            within(0, 1),
		"operator.scripted.relative_s":          within(0, 86_400),
		"operator.scripted.max_labels":          within(0, 1e9),
		"operator.scripted.compare_s":           within(0, 3600),
		"operator.scripted.drift.start":         within(-1e6, 1e6),
		"operator.scripted.drift.minute_std":    within(0, 1e6),
		"operator.scripted.drift.bound":         within(0, 1e6),
		"operator.scripted.mistake_probability": within(0, 1),
		"operator.scripted.noise_std":           within(0, 1000),
		"operator.scripted.levels":              within(0, 1000),
		"operator.scripted.bias":                within(-1e6, 1e6),
		"operator.scripted.reward_low":          within(-1e6, 1e6),
		"operator.scripted.reward_high":         within(-1e6, 1e6),
		"operator.scripted.absence.away_s":      within(0, 86_400),
		"operator.scripted.absence.every_s":     within(0, 86_400),
		"operator.scripted.fatigue.half_life":   within(0, 1e6),
		"operator.scripted.fatigue.recovery_s":  within(0, 86_400),
		"operator.scripted.seed":                atLeast(0),
	}
}

// checkLimits checks a value and all within it. pattern is the path with [] for
// each index.
func (c *checker) checkLimits(v reflect.Value, path, pattern string) {
	switch v.Kind() {
	case reflect.Struct:
		for _, key := range keysOf(v.Type()) {
			field, _ := fieldOf(v, key)
			d, isDevice := v.Interface().(Device)
			if isDevice && field.Kind() == reflect.Struct && key != d.Driver && field.IsZero() {
				continue // the section of another driver
			}
			c.checkLimits(field, joinPath(path, key), joinPath(pattern, key))
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.checkLimits(v.Index(i), fmt.Sprintf("%s[%d]", path, i), pattern+"[]")
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), byName) {
			c.checkLimits(v.MapIndex(key), joinPath(path, key.String()), pattern+anyName)
		}
	case reflect.Bool:
	case reflect.String:
		if l, ok := limits[pattern]; ok && !slices.Contains(l.choices, v.String()) {
			named := slices.DeleteFunc(slices.Clone(l.choices), func(s string) bool { return s == "" })
			c.add(path, " is unknown (%q); %s", shorten(v.String()), suggest(v.String(), named))
		}
	default:
		if l := limits[pattern]; !l.contains(numberOf(v)) {
			c.add(path, " is out of range (%v); choose %v", v.Interface(), l)
		}
	}
}

// anyName stands for the names of a table in a pattern.
const anyName = ".*"

func byName(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }

// numberOf returns a number as a float64.
func numberOf(v reflect.Value) float64 { return v.Convert(reflect.TypeFor[float64]()).Float() }
