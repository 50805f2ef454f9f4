// The look of the sign-in page: PatternFly's login page, which needs no script but for the theme that the person chose.

import "@patternfly/react-core/dist/styles/base.css";
import "@patternfly/react-styles/css/components/Brand/brand.css";
import "@patternfly/react-styles/css/components/Button/button.css";
import "@patternfly/react-styles/css/components/Form/form.css";
import "@patternfly/react-styles/css/components/FormControl/form-control.css";
import "@patternfly/react-styles/css/components/HelperText/helper-text.css";
import "@patternfly/react-styles/css/components/Login/login.css";
import "@patternfly/react-styles/css/components/Title/title.css";
import "./signin.css";
import { applyTheme } from "../shell/theme";

applyTheme();
