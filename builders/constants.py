"""Constants of the physics: value, unit and source on one line each."""

AU_KM = 149_597_870.7  # astronomical unit [km]; IAU 2012 Resolution B2
LIGHT_KM_PER_S = 299_792.458  # speed of light [km/s]; SI definition
SUN_RADIUS_KM = 695_700.0  # nominal solar radius [km]; IAU 2015 Resolution B3
MOON_RADIUS_KM = 1_737.4  # mean lunar radius [km]; IAU WGCCRE 2015 (Archinal et al. 2018), table 1
EARTH_RADIUS_KM = 6_378.137  # equatorial radius [km]; WGS 84 (NIMA TR8350.2, 2000)
EARTH_FLATTENING = 1 / 298.257223563  # WGS 84 (NIMA TR8350.2, 2000)

SGP4_MU_KM3_PER_S2 = 398_600.8  # WGS 72, SGP4's own (Hoots & Roehrich 1980; Vallado et al. 2006)
SGP4_RADIUS_KM = 6_378.135  # WGS 72, SGP4's own
SGP4_J2 = 0.001082616  # WGS 72, SGP4's own

DAY_S = 86_400.0  # [s]; UTC days as SGP4 and Julian dates count them
UNIX_EPOCH_JD = 2_440_587.5  # Julian date of 1970-01-01T00:00 UTC
