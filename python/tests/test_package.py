import re

import headend


def test_the_package_has_the_version_of_the_native_module():
    assert headend.__version__ == headend._native.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", headend.__version__)
