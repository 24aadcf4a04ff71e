"""Helm 3 and Helm 4 make the same objects of the same values."""

import unittest

from chart import HELM4_KUBE, by_identity, helm4, matrix, parse, render, values_of


class HelmsAgree(unittest.TestCase):
    def test_every_values_file(self):
        for path in matrix():
            with self.subTest(path.name):
                values = values_of(path)
                texts = [text for name, text in helm4(values).items() if not name.endswith("NOTES.txt")]
                four = [document for text in texts for document in parse(text)]
                three = by_identity(render(values, HELM4_KUBE))
                self.assertGreater(len(three), 4)
                self.assertEqual(three, by_identity(four))

    def test_notes_name_every_target_and_no_blank_is_left(self):
        for path in matrix():
            with self.subTest(path.name):
                values = values_of(path)
                notes = next(text for name, text in helm4(values).items() if name.endswith("NOTES.txt"))
                self.assertNotIn("<no value>", notes)
                for target in values.get("targets", []):
                    self.assertIn(target["name"], notes)


if __name__ == "__main__":
    unittest.main()
