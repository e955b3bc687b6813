package upstream

// MaxLingering is for tests of the bound.
const MaxLingering = maxLingering
