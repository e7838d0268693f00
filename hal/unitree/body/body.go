package body

import "optibfm/hal/legged"

// Go2 and G1 are the trees of the robots. Callers do not change them.
func Go2() *legged.Body { return &go2 }
func G1() *legged.Body  { return &g1 }
