"""keelson-search with a blueprint, the file by which networks grow."""

import json
import unittest

from searches import ONE_THREAD, SearchCase, lines_of


class Blueprints(SearchCase):
    def test_a_blueprint(self):
        """Widths and copies lie within the blueprint, which counts in the network of --start."""
        blueprint = self.write("blueprint.toml", 'epochs = [1]\nparameters = 20000\n[widths]\n"*" = [9, 21]\ndense2 = 5\n'
                                                 '[depth]\ndense1 = [1, 2]\n')
        done = self.run_search("--networks", 8, "--blueprint", blueprint)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("times", done.stdout)
        genomes = [line["genome"]["dense"] for line in lines_of(self.out, "birth")]
        self.assertEqual({layers[0]["copies"] for layers in genomes}, {"1", "2"})
        for layers in genomes:
            for number, layer in enumerate(layers):
                self.assertLessEqual(int(layer["units"]), 5 if number == 1 else 21)
                self.assertGreaterEqual(int(layer["units"]), 1 if number == 1 else 9)
        again = self.succeed("replay", self.out, "--retrain", 1, "--scratch", self.folder / "scratch", env=ONE_THREAD)
        self.assertIn("8 networks made again from the log, 0 differ", again)
        best = self.folder / "best"
        self.succeed("best", self.out, "--network", 0, "--out", best)
        self.assertIn("dense1_copy1", (best / "network.py").read_text())
        multiples = self.write("multiples.toml", '[widths]\n"*" = ["0.5x", "2x"]\n')
        self.succeed(*self.words("--networks", 6, "--start", best / "genome.json", "--blueprint", multiples, "--overwrite"),
                     env=ONE_THREAD)
        births = [line["genome"] for line in lines_of(self.out, "birth")]
        first = int(births[0]["dense"][0]["units"])
        self.assertEqual(births[0], json.loads((best / "genome.json").read_text()))
        for genome in births:
            self.assertTrue(first / 2 <= int(genome["dense"][0]["units"]) <= first * 2, genome)
        self.refused(*self.words("--blueprint", multiples, "--overwrite"), says="give numbers of units, or the network with --start")
        large = self.write("large.toml", "parameters = 50\n[widths]\n\"*\" = [200, 300]\n")
        self.refused(*self.words("--blueprint", large, "--overwrite"), says="none of many was within the limits: 50 parameters", ranks=2)
        other = self.write("other.toml", "[widths]\nconv3 = 8\n")
        self.refused(*self.words("--blueprint", other, "--overwrite"), says="other.toml: units of \"conv3\": no network of the search has this layer")


if __name__ == "__main__":
    unittest.main(verbosity=2)
