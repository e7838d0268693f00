package configs

import _ "embed"

// The schema is made from the types, their comments, enums and limits by
// TestTheSchemaIsUpToDate -update, which go generate runs.
//
//go:generate go test . -run TestTheSchemaIsUpToDate -update
//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of a configuration, for
// editors that complete and check keys while they are typed.
func Schema() []byte { return append([]byte(nil), schema...) }

// limit is the range of a number. The packages that own the keys enforce it;
// here it is told to editors, and a test compares the two.
type limit struct {
	min, max float64
	above    bool // min itself is not allowed
}

const noMax = 0 // limit.max of a number without an upper bound

func limits() map[string]limit {
	return map[string]limit{
		"version":                               {min: Version, max: Version},
		"robot.rover.period_ms":                 {min: 1, max: 1000},
		"robot.rover.arena_m":                   {min: 0.1, max: 1000},
		"robot.rover.radius_m":                  {min: 0.001},
		"robot.rover.track_m":                   {min: 0.001, max: 100},
		"robot.rover.max_speed_mps":             {min: 0.001, max: 100},
		"robot.rover.motor_lag_ms":              {min: 0, max: 10_000},
		"robot.rover.slip_std":                  {min: 0, max: 1},
		"robot.rover.noise.position_m":          {min: 0},
		"robot.rover.noise.heading_rad":         {min: 0},
		"robot.rover.noise.speed_mps":           {min: 0, max: 100},
		"robot.rover.noise.yaw_rate_radps":      {min: 0, max: 100},
		"robot.bridge.timeout_ms":               {min: 0, max: 3_600_000},
		"robot.bridge.stale_ms":                 {min: 0, max: 3_600_000},
		"robot.bridge.deadman_ms":               {min: 0, max: 3_600_000},
		"robot.bridge.start_timeout_ms":         {min: 0, max: 3_600_000},
		"robot.composite.i2c_timeout_ms":        {min: 10, max: 1000},
		"robot.composite.history":               {min: 0},
		"model.tensorflow.intra_op_threads":     {min: 0, max: 1024},
		"model.tensorflow.inter_op_threads":     {min: -1, max: 1024},
		"controller.candidates":                 {min: 0, max: 65_536},
		"controller.replan_every_ticks":         {min: 0},
		"controller.sigma":                      {min: 0, above: true},
		"controller.lambda":                     {min: 0, above: true},
		"controller.rho":                        {min: 0, max: 1, above: true},
		"controller.robust":                     {min: 0, max: 1e6},
		"controller.beta.value":                 {min: 0},
		"controller.gate.kappa":                 {min: 0},
		"controller.gate.requests_per_minute":   {min: 0, max: 10_000},
		"controller.gate.timeout_s":             {min: 0, max: 3600, above: true},
		"controller.gate.backoff_s":             {min: 0},
		"controller.gate.backoff_max_s":         {min: 0, max: 86_400},
		"controller.credit.delay_s":             {min: 0},
		"controller.credit.width_s":             {min: 0},
		"controller.credit.held.delay_s":        {min: 0},
		"controller.credit.held.width_s":        {min: 0},
		"controller.gate.labels_per_minute":     {min: 0, max: 1000},
		"controller.guard.max_bad_ticks":        {min: 0},
		"controller.max_plan_age_ticks":         {min: 1},
		"loop.period_ms":                        {min: 0.05, max: 60_000},
		"loop.fifo_priority":                    {min: 0, max: 98},
		"loop.timer_slack_ns":                   {min: 0},
		"loop.max_missed_ticks":                 {min: -1},
		"loop.memory_limit_mib":                 {min: 16, max: 1 << 24},
		"loop.watchdog_ms":                      {min: 0, max: 3_600_000},
		"safety.max_sample_age_ms":              {min: 0, max: 60_000},
		"safety.frozen_ticks":                   {min: 0, max: 1e9},
		"operator.scripted.delay_s":             {min: 0, max: 60},
		"operator.scripted.interval_s":          {min: 0, max: 3600},
		"operator.scripted.mistake_probability": {min: 0, max: 1},
		"operator.scripted.noise_std":           {min: 0, max: 1000},
		"operator.scripted.levels":              {min: 0, max: 1000},
		"operator.scripted.reward_low":          {min: -1e6, max: 1e6},
		"operator.scripted.reward_high":         {min: -1e6, max: 1e6},
		"operator.scripted.absence.away_s":      {min: 0, max: 86_400},
		"operator.scripted.absence.every_s":     {min: 0, max: 86_400},
		"operator.keyboard.good_value":          {min: -1000, max: 1000},
		"operator.keyboard.neutral_value":       {min: -1000, max: 1000},
		"operator.keyboard.bad_value":           {min: -1000, max: 1000},
		"operator.keyboard.refractory_ms":       {min: 0, max: 5000},
		"operator.keyboard.reaction_ms":         {min: 0, max: 2000},
		"operator.evdev.labels.good_value":      {min: -1000, max: 1000},
		"operator.evdev.labels.bad_value":       {min: -1000, max: 1000},
		"operator.evdev.labels.refractory_ms":   {min: 0, max: 5000},
		"operator.evdev.labels.reaction_ms":     {min: 0, max: 2000},
		"operator.evdev.labels.hold_after_ms":   {min: 0, max: 10_000},
		"operator.evdev.labels.interval_ms":     {min: 20, max: 10_000},
		"operator.evdev.labels.weight":          {min: 0, max: 1, above: true},
		"operator.gpio.labels.good_value":       {min: -1000, max: 1000},
		"operator.gpio.labels.bad_value":        {min: -1000, max: 1000},
		"operator.gpio.labels.refractory_ms":    {min: 0, max: 5000},
		"operator.gpio.labels.reaction_ms":      {min: 0, max: 2000},
		"operator.gpio.labels.hold_after_ms":    {min: 0, max: 10_000},
		"operator.gpio.labels.interval_ms":      {min: 20, max: 10_000},
		"operator.gpio.labels.weight":           {min: 0, max: 1, above: true},
		"operator.evdev.axis.dead_zone":         {min: 0.01, max: 0.9},
		"operator.gpio.debounce_ms":             {min: 0, max: 1000},
		"operator.web.good_value":               {min: -1000, max: 1000},
		"operator.web.bad_value":                {min: -1000, max: 1000},
		"operator.web.sample_ms":                {min: 100, max: 10_000},
		"operator.web.refractory_ms":            {min: 0, max: 5000},
		"operator.web.reaction_ms":              {min: 0, max: 2000},
		"operator.web.max_late_s":               {min: 0.1, max: 60},
		"log.flush_ms":                          {min: 1, max: 60_000},
		"log.snapshot_s":                        {min: 0.1, max: 3600},
		"log.keep_gb":                           {min: 0, max: 1e6},
		"log.min_free_gb":                       {min: 0, max: 1e6},
		"run.duration_s":                        {min: 0, max: 1e9},
		"run.episodes":                          {min: 0, max: 1e9},
		"run.episode_s":                         {min: 0, max: 1e9},
		"run.host_timeout_s":                    {min: 0.05, max: 60},
	}
}
