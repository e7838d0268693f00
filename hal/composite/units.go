package composite

import (
	"fmt"
	"math"
)

// unit is the dimension of a unit and its size in the SI unit.
type unit struct {
	dimension string
	si        float64
}

const standardGravity = 9.80665 // m/s²

// units are the convertible units. Any other unit only fits itself.
var units = map[string]unit{
	"rad": {"angle", 1}, "mrad": {"angle", 1e-3}, "deg": {"angle", math.Pi / 180}, "rev": {"angle", 2 * math.Pi},
	"rad/s": {"turn rate", 1}, "deg/s": {"turn rate", math.Pi / 180},
	"rev/s": {"turn rate", 2 * math.Pi}, "rpm": {"turn rate", math.Pi / 30},
	"m": {"length", 1}, "cm": {"length", 1e-2}, "mm": {"length", 1e-3},
	"m/s": {"speed", 1}, "cm/s": {"speed", 1e-2}, "mm/s": {"speed", 1e-3}, "km/h": {"speed", 1 / 3.6},
	"m/s^2": {"acceleration", 1}, "m/s²": {"acceleration", 1},
	"g": {"acceleration", standardGravity}, "mg": {"acceleration", standardGravity * 1e-3},
	"s": {"time", 1}, "ms": {"time", 1e-3}, "us": {"time", 1e-6}, "µs": {"time", 1e-6},
	"N": {"force", 1}, "N·m": {"torque", 1}, "N*m": {"torque", 1}, "Nm": {"torque", 1}, "mNm": {"torque", 1e-3},
	"A": {"current", 1}, "mA": {"current", 1e-3}, "V": {"voltage", 1}, "mV": {"voltage", 1e-3}, "W": {"power", 1},
	"T": {"magnetic field", 1}, "uT": {"magnetic field", 1e-6}, "µT": {"magnetic field", 1e-6},
	"Hz": {"frequency", 1}, "K": {"temperature", 1}, "Pa": {"pressure", 1}, "hPa": {"pressure", 100},
}

// pulse is the unit of a pulse length, with which a servo or a speed controller is commanded any
// quantity.
const pulse = "us"

// conversion returns the factor from one unit to another. If one of them is dimensionless, or the
// other one is that of a pulse, scale is required: the second unit for each of the first.
func conversion(from, to string, scale float64) (float64, error) {
	factor := scale
	if scale == 0 {
		factor = 1
	}
	a, knownA := units[from]
	b, knownB := units[to]
	switch {
	case from == to:
		return factor, nil
	case (from == "" || to == "" || to == pulse) && scale != 0:
		return scale, nil
	case from == "" || to == "":
		return 0, fmt.Errorf("the units do not fit (%s, %s): give a scale, or the same unit",
			unitName(from), unitName(to))
	case knownA && knownB && a.dimension == b.dimension:
		return factor * a.si / b.si, nil
	case knownA && knownB:
		return 0, fmt.Errorf("the units do not fit (%s is %s, %s is %s)",
			from, withArticle(a.dimension), to, withArticle(b.dimension))
	}
	return 0, fmt.Errorf("the units do not fit (%s, %s); set the same unit on both sides", from, to)
}

func withArticle(noun string) string {
	switch noun[0] {
	case 'a', 'e', 'i', 'o', 'u':
		return "an " + noun
	}
	return "a " + noun
}

func unitName(unit string) string {
	if unit == "" {
		return "no unit"
	}
	return unit
}
